import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseJson } from '../lib/json/json.js';
import { JsonSyntaxError, MAX_JSON_DEPTH } from '../lib/json/json-check.js';
import { JsonText } from '../lib/json/json-text.js';
import { keepingData, parseKeepingData } from './inline-data.js';

/** The value, and in how many steps it was made. */
function run(bytes: Buffer): { value: unknown; steps: number } {
  const work = keepingData(bytes);
  for (let steps = 1; ; steps++) {
    const step = work.next();
    if (step.done === true) return { value: step.value, steps };
  }
}

function dataOf(value: unknown): (string | undefined)[] {
  const { entries } = value as { entries: { data?: unknown }[] };
  return entries.map(({ data }) => (data instanceof JsonText ? data.text : undefined));
}

describe('a body with inline data', () => {
  it('is read in steps that are short, and keeps every character of a long document', () => {
    for (const text of ['x', 'ä', '€', '😀', 'aä€😀\\n']) {
      const document = `{"numbers":[1.0,12345678901234567890],"text":"${text.repeat(400_000)}"}`;
      const { value, steps } = run(Buffer.from(`{"entries":[{"data": ${document} ,"a":1},{"data":2.0}],"x":[0]}`));
      const [first, second] = dataOf(value);
      assert(first === document, text); // assert.equal would print it
      assert.equal(second, '2.0');
      assert.deepEqual({ ...(value as object), entries: [] }, { entries: [], x: [0] });
      assert(steps > 3, `${steps} steps`);
    }
  });

  it('keeps the data of each of many entries, whatever stands around it', () => {
    const space = fc.constantFrom('', ' ', '\n\t ');
    const entry = fc.tuple(fc.json(), fc.constantFrom('"data"', '"d\\u0061ta"'), space, fc.json());
    fc.assert(
      fc.property(fc.array(entry), space, (entries, gap) => {
        const texts = entries.map(([data, name, around, other]) => {
          const nested = `{"entries":[{"data":${other}}]}`;
          return `{"x":${nested},${name}${around}:${around}${data}${around},"y":[${nested}],"data2":1}`;
        });
        const body = `${gap}{"data":1,"z":{"data":[1]},"entries"${gap}:[${texts.join(`${gap},`)}]}${gap}`;
        const value = parseKeepingData(body);
        assert.deepEqual(
          dataOf(value),
          entries.map(([data]) => (data === 'null' ? undefined : data)),
        );
        const again = parseJson(body) as { entries: object[] };
        const plain = (each: object): object => ({ ...each, data: undefined });
        const { entries: kept, ...rest } = value as { entries: object[] };
        assert.deepEqual(kept.map(plain), again.entries.map(plain));
        assert.deepEqual({ ...rest, entries: [] }, { ...again, entries: [] });
      }),
    );
  });

  it('is left alone where entries are not a list of objects', () => {
    for (const text of [
      '{"entries":{"a":{"data":1}}}',
      '{"entries":[[{"data":1}],3,null]}',
      '[{"entries":[{"data":1}]}]',
    ]) {
      assert.deepEqual(parseKeepingData(text), JSON.parse(text), text);
    }
  });

  it('does not keep what is nested deeper than engines read', () => {
    const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;
    const body = `{"entries":[{"data":${nested(MAX_JSON_DEPTH + 1)}},{"data":${nested(MAX_JSON_DEPTH)}},{"data":[]}]}`;
    assert.deepEqual(dataOf(parseKeepingData(body)), [undefined, nested(MAX_JSON_DEPTH), '[]']);
  });

  it('says at which byte it stops being JSON', () => {
    const wrong = Buffer.from('{"entries":[{"data":"ä"}],}');
    assert.throws(
      () => run(wrong),
      (error) => error instanceof JsonSyntaxError && error.offset === wrong.length - 1,
    );
  });
});
