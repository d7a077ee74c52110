import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import * as z from 'zod';
import { cpuTimer } from '../../test/support/cpu-time.js';
import { type ListPlace, listPlaces, wrongElements } from '../../test/support/schema-lists.js';
import * as bundle from './bundle.js';
import * as updates from './catch-up-page.js';
import * as data from './data.js';
import { fieldProblems } from './field-problems.js';
import * as frames from './frames.js';
import { dict, jsonSchemaOf, list, MANY, MAX_PROBLEMS } from './lists.js';
import * as report from './report.js';
import * as session from './session.js';

/** More than a list takes, or as many as a body can have. */
const TOO_MANY = { list: MANY + 1, dict: 100_000 };
/** Elements that a list without an end of its own may look at before it is left. */
const SHORT = 1_000;

describe('every list of every message', () => {
  const made = new Map<string, unknown>();
  /** As from a body; the same for all places, since parsing it takes longer than what is tested. */
  function wrong(kind: ListPlace['kind'], count: number): unknown {
    const key = `${kind} ${count}`;
    if (!made.has(key)) made.set(key, JSON.parse(wrongElements(kind, count)));
    return made.get(key);
  }

  const schemas = Object.entries({ bundle, data, frames, report, session, updates }).flatMap(([module, exported]) =>
    Object.entries(exported).flatMap(([name, value]) =>
      value instanceof z.ZodType ? [[`${module}.${name}`, value] as const] : [],
    ),
  );
  for (const [name, schema] of schemas) {
    for (const place of listPlaces(schema)) {
      it(`${name}, ${place.path.join('.') || 'itself'}: is bounded, and costs little where all of it is wrong`, () => {
        assert(
          place.stops || (place.max ?? Number.POSITIVE_INFINITY) <= SHORT,
          'use list() or dict() of wire/lists.ts',
        );
        for (const count of [TOO_MANY[place.kind], Math.min(place.max ?? SHORT, 20_000)]) {
          const value = place.path.reduceRight<unknown>(
            (inner, step) => (step === 0 ? [inner] : { [step]: inner }),
            wrong(place.kind, count),
          );
          const spentMs = cpuTimer();
          const parsed = schema.safeParse(value);
          const problems = parsed.success ? [] : fieldProblems(parsed.error);
          assert(spentMs() < 1000, `${spentMs()} ms for ${count}`);
          assert((parsed.error?.issues.length ?? 0) <= 2 * SHORT, `${parsed.error?.issues.length} problems were kept`);
          assert(JSON.stringify(problems).length < 20_000);
        }
      });
    }
  }
});

test('twenty problems are named, the others counted', () => {
  const schema = z.object({ all: list(z.object({ a: z.string(), b: z.string() }), { max: 1000 }) });
  const parsed = schema.safeParse({ all: Array.from({ length: 1000 }, () => ({})) });
  assert(parsed.error);
  const problems = fieldProblems(parsed.error);
  assert.equal(problems.length, MAX_PROBLEMS + 1);
  assert.deepEqual(problems[2], {
    loc: ['body', 'all', 1, 'a'],
    msg: problems[0]?.msg,
    type: 'value_error.invalid_type',
  });
  assert.deepEqual(problems.at(-1), {
    loc: ['body'],
    msg: '990 elements were not read',
    type: 'value_error.more',
  });
  const many = z.object(Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`f${index}`, z.string()])));
  const missing = many.safeParse({});
  assert(missing.error);
  assert.equal(fieldProblems(missing.error).at(-1)?.msg, '10 more problems');
  const one = schema.safeParse({ all: [{ a: 'x' }] });
  assert(one.error);
  assert.deepEqual(
    fieldProblems(one.error).map(({ loc }) => loc),
    [['body', 'all', 0, 'b']],
  );
});

test('a list of the right length is what an ordinary one is', () => {
  const schema = z.object({
    all: list(z.coerce.string(), { max: 3, empty: 'one at least' }).default(['x']),
    named: dict(z.number(), { max: 2 }).optional(),
  });
  assert.deepEqual(schema.parse({}), { all: ['x'] });
  assert.deepEqual(schema.parse({ all: [1, 'a'], named: { a: 1 } }), { all: ['1', 'a'], named: { a: 1 } });
  assert.match(String(schema.safeParse({ all: [] }).error), /one at least/);
  assert.match(String(schema.safeParse({ all: [1, 2, 3, 4] }).error), /must be at most 3/);
  assert.match(String(schema.safeParse({ named: { a: 1, b: 2, c: 3 } }).error), /at most 2 members/);
  assert.equal(schema.safeParse({ all: { length: 1 } }).success, false);
  const described = jsonSchemaOf(schema, { io: 'input' }).properties as Record<string, unknown>;
  assert.deepEqual(described.all, { type: 'array', minItems: 1, maxItems: 3, items: { type: 'string' } });
  assert.deepEqual((described.named as { additionalProperties: unknown }).additionalProperties, { type: 'number' });
});

test('names and messages that a caller made long are shortened', () => {
  const long = 'x'.repeat(100_000);
  const parsed = z.object({ h: dict(z.number(), { max: 9 }) }).safeParse({ h: { [long]: 'x' } });
  assert(parsed.error);
  assert(JSON.stringify(fieldProblems(parsed.error)).length < 1000);
  const unknown = z.strictObject({}).safeParse({ [long]: 1 });
  assert(unknown.error);
  assert(JSON.stringify(fieldProblems(unknown.error)).length < 2000);
});
