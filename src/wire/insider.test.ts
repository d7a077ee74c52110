import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as z from 'zod';
import { insider, insiderCut } from './insider.js';
import { dict, list } from './lists.js';

const SECRET = insider(z.string());

/** What is left of a value. */
function left(schema: z.ZodType, value: unknown): unknown {
  const cut = insiderCut(schema);
  assert(cut !== undefined, 'something is for insiders');
  return cut(value);
}

test('a marked member is gone wherever it is: in lists, maps, alternatives, and behind what says more of it', () => {
  const inner = { a: 1, secret: 's' };
  const schema = z.object({ a: z.number(), secret: SECRET });
  const rows: readonly [z.ZodType, unknown, unknown][] = [
    [schema, inner, { a: 1 }],
    [z.object({ in: schema.nullable().optional() }), { in: inner }, { in: { a: 1 } }],
    [z.array(schema), [inner, inner], [{ a: 1 }, { a: 1 }]],
    [z.record(z.string(), schema), { x: inner, y: inner }, { x: { a: 1 }, y: { a: 1 } }],
    [list(schema, { max: 2 }), [inner], [{ a: 1 }]],
    [dict(schema, { max: 2 }), { x: inner }, { x: { a: 1 } }],
    [z.union([z.object({ secret: z.string() }), schema]), inner, { a: 1 }],
    [z.union([z.object({ in: z.object({ a: SECRET }) }), z.object({ in: schema })]), { in: inner }, { in: {} }],
    [z.object({ secret: SECRET.describe('what it is') }), { secret: 's' }, {}],
    [z.object({ secret: SECRET.nullable().default('x').readonly() }), { secret: 's' }, {}],
    [schema.extend({ b: z.number() }).partial(), { ...inner, b: 2 }, { a: 1, b: 2 }],
    [schema.pick({ secret: true }), inner, { a: 1 }],
  ];
  for (const [index, [form, value, rest]] of rows.entries()) assert.deepEqual(left(form, value), rest, `row ${index}`);
});

test('an answer of another form than its schema loses nothing else, and breaks nothing', () => {
  const schema = z.object({ list: z.array(z.object({ secret: SECRET })), in: z.object({ secret: SECRET }) });
  for (const value of [null, 1, 'text', [], {}, { list: null, in: 3 }, { list: [1, null], in: [] }])
    assert.deepEqual(left(schema, value), value);
});

test('where nothing is for insiders there is nothing to do', () => {
  assert.equal(insiderCut(z.object({ a: z.array(z.object({ b: z.string().optional() })) })), undefined);
});

test('the mark is in the JSON Schema, and the member is not required', () => {
  const { properties, required } = z.toJSONSchema(z.object({ a: z.string(), secret: SECRET.describe('why') }));
  assert.deepEqual(properties?.secret, { type: 'string', description: 'why', 'x-insider': true });
  assert.deepEqual(required, ['a']);
});
