import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { CompiledPolicy } from '../../src/embedded/compiled/compiled-policy.js';
import { EvaluationError } from '../../src/embedded/compiled/evaluation-error.js';
import { isPlainJson } from '../../src/embedded/compiled/plain-json.js';
import { GoProcess } from '../../src/embedded/go/go-process.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { ANY_CHARACTER } from '../support/any-character.js';

/** Rules whose results depend on all that a text can mean: values, equality, order, keys, indexes, sizes, sums. */
const REGO = `package t

echo := input
items := {item | some item in input}
keys := {item: index | some index, item in input}
pairs := {[item, {item}, {"in": {item}}] | some item in input}
same := [result | some a in input; some b in input; result := a == b]
less := [result | some a in input; some b in input; result := a < b]
found := [result | all := {item | some item in input}; some item in input; result := item in all]
sorted := sort(input)
indexed := [["a", "b", "c"][item] | some item in input]
types := [type_name(item) | some item in input]
counted := {count(item) | some item in input; not is_number(item); not is_boolean(item); not is_null(item)}
sums := [result | some item in input; is_number(item); result := item + 1]
texts := [concat("<", [upper(item), lower(item), trim_space(item)]) | some item in input; is_string(item)]
`;
const RULES = [...REGO.matchAll(/^(\w+) :=/gm)].map(([, name]) => `t/${name}`);
/** In place of a result: Go is asked then. */
const FAILED = 'the evaluation fails';
const LONG = process.env.SYNC_TEST_LONG === '1';
const RUNS = LONG ? 3000 : 60;

const text = fc.oneof(
  fc.string({ unit: fc.constantFrom(...'ab<>&"\\/ é\u2028\u007f\n\t\b\f\u0001😀\uffff1{}:'), maxLength: 5 }),
  fc.string({ unit: ANY_CHARACTER, maxLength: 4 }),
  fc.constantFrom('', 'set()', '__proto__', '1', 'true'),
);
const string = fc.oneof(
  text.map((value) => JSON.stringify(value)),
  fc.constantFrom('"\\u0061"', '"\\/"', '"\\ud800"', '"\\ud83d\\ude00"'),
);
const number = fc.oneof(
  fc.integer({ min: -3, max: 12 }).map(String),
  fc.maxSafeInteger().map(String),
  fc.constantFrom('999999999999999999', '9223372036854775808', '-0', '1.0', '2.50', '1e2', '1E-2', '0.1'),
);
const space = fc.constantFrom('', '', ' ', '\n\t');
/** JSON as written by anybody: repeated names, escapes, white space. */
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false'),
    number,
    string,
    fc.array(tie('value'), { maxLength: 4 }).map((items) => `[${items.join(',')}]`),
    fc.array(fc.tuple(string, space, tie('value')), { maxLength: 4 }).map((members) => {
      return `{${members.map(([name, gap, item]) => `${name}${gap}:${gap}${item}`).join(',')}}`;
    }),
  ),
}));
const input = fc.array(value, { maxLength: 5 }).map((items) => `[${items.join(' , ')}]`);

describe("results of compiled policies and of OPA's Go code", () => {
  let go: GoProcess;
  let policy: CompiledPolicy;

  before(async () => {
    go = await GoProcess.start({});
    const modules = [{ path: 't.rego', rego: REGO, version: 1 as const }];
    await go.prepare({ hash: 'h', modules }, { roots: [[]], documents: '{}' });
    await go.commit();
    const { wasm, entrypoints } = await go.compile(RULES, 'active');
    assert.deepEqual(
      entrypoints.filter(({ compiled }) => !compiled),
      [],
    );
    assert(wasm !== undefined);
    policy = new CompiledPolicy(new WebAssembly.Module(wasm), { memoryLimitBytes: 2 ** 28, documentBytes: 0 });
  });
  after(() => go?.kill('the test is over'));

  function ofCompiled(rule: string, json: string): string | undefined {
    try {
      return policy.evaluate(rule, json);
    } catch (error) {
      if (error instanceof EvaluationError && error.problem === 'policy') return FAILED;
      throw error;
    }
  }

  async function ofGo(rule: string, json: string): Promise<string | undefined> {
    try {
      return await go.decide(rule, json);
    } catch (error) {
      if (error instanceof EngineRefusal) return FAILED;
      throw error;
    }
  }

  it('property: are the same bytes for every input that is plain JSON', { timeout: 3_600_000 }, async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(input, async (json) => {
        for (const rule of RULES) {
          if (!isPlainJson(json)) {
            assert.throws(() => policy.evaluate(rule, json), EvaluationError);
            continue;
          }
          const compiled = ofCompiled(rule, json);
          if (compiled === FAILED) continue; // left to Go
          assert.equal(compiled, await ofGo(rule, json), `${rule} of ${json}`);
          compared++;
        }
      }),
      { numRuns: RUNS },
    );
    assert(compared > RUNS, `${compared} results compared`);
  });

  it('are the same for documents, as far as they are plain JSON', { timeout: 3_600_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(value, async (json) => {
        const documents = `{"a":${json}}`;
        policy.setDocuments(documents);
        await go.write([{ path: ['a'], text: json }]);
        const there = await go.decide('a', undefined);
        assert.equal(policy.read(['a']), there);
      }),
      { numRuns: RUNS },
    );
  });
});
