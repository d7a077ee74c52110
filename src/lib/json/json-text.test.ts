import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ANY_CHARACTER } from '../../../test/support/any-character.js';
import { parseJson } from './json.js';
import { elements, JsonText, jsonKind, members, objectText, printJson } from './json-text.js';

/**
 * A JSON text, and what it means: said by whoever wrote it, since `JSON.parse` misreads some names
 * (`src/lib/json/json.ts`).
 */
interface Written {
  readonly text: string;
  readonly means: unknown;
}

const space = fc.constantFrom('', '', ' ', '\n', '\t\r\n ');
/**
 * Texts on which cutting could go wrong: brackets and quotes in strings, escapes, numbers that do
 * not survive a parse.
 */
const awkward = fc.constantFrom(
  ...['0', '-0', '1.0', '1e400', '-1E-2', '12345678901234567890', 'true', 'false', 'null'],
  ...['""', '"\\""', '"\\\\"', '"\\\\\\""', '"\\\\\\\\"', '"{[,:]}"', '"\\ud800"', '"\\ud83d\\ude00"', '"\u2028"'],
);
const string = fc.string({ unit: ANY_CHARACTER, maxLength: 5 }).map((text) => JSON.stringify(text));
const key = fc.oneof(
  string,
  fc.constantFrom('"__proto__"', '""', '"a/b~c"', '"constructor"', '"\\u0061"', '"a"', '"0"'),
);
const scalar = fc.oneof(awkward, string).map((text): Written => ({ text, means: JSON.parse(text) }));

/** JSON texts with white space anywhere, repeated names included. */
const { value, object, array } = fc.letrec<{ value: Written; object: Written; array: Written }>((tie) => ({
  value: fc.oneof({ depthSize: 'small', withCrossShrink: true }, scalar, tie('object'), tie('array')),
  object: fc
    .tuple(space, fc.array(fc.tuple(space, key, space, space, tie('value'), space), { maxLength: 4 }))
    .map(([inside, list]) => {
      const parts = list.map(([a, name, b, c, { text }, d]) => `${a}${name}${b}:${c}${text}${d}`);
      return {
        text: `{${parts.length === 0 ? inside : parts.join(',')}}`,
        means: Object.fromEntries(list.map(([, name, , , { means }]) => [JSON.parse(name), means])),
      };
    }),
  array: fc.tuple(space, fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 })).map(([inside, list]) => ({
    text: `[${list.length === 0 ? inside : list.map(([a, { text }, b]) => `${a}${text}${b}`).join(',')}]`,
    means: list.map(([, { means }]) => means),
  })),
}));

const RUNS = { numRuns: 3000 };

describe('members', () => {
  it('has the names and values that the text means', () => {
    fc.assert(
      fc.property(object, ({ text, means }) => {
        const values = [...members(text)].map(([name, item]) => [name, parseJson(item)] as const);
        assert.deepEqual(Object.fromEntries(values), means);
      }),
      RUNS,
    );
  });

  it('keeps values as written, without the space around them', () => {
    const found = members('{ "n" : 12345678901234567890 ,"f":1.0, "o":{ "a" : [1 , 2] }\n,"s":"\\u0061\\/" }');
    assert.deepEqual(
      [...found],
      [
        ['n', '12345678901234567890'],
        ['f', '1.0'],
        ['o', '{ "a" : [1 , 2] }'],
        ['s', '"\\u0061\\/"'],
      ],
    );
  });

  it('gives names that mean something to JavaScript like any other', () => {
    const found = members('{"__proto__":{"polluted":1},"constructor":2,"":3}');
    assert.deepEqual([...found.keys()], ['__proto__', 'constructor', '']);
    assert.equal(Object.hasOwn(Object.prototype, 'polluted'), false);
  });

  it('of a repeated name has the last, however it is escaped', () => {
    assert.deepEqual(
      [...members('{"a":1,"b":2,"\\u0061":3}')],
      [
        ['a', '3'],
        ['b', '2'],
      ],
    );
  });

  it('survives nesting far deeper than the call stack', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    assert.equal(members(`{"a":${deep},"b":1}`).get('a'), deep);
    const strings = '"\\\\"'.repeat(1);
    assert.equal(members(`{"a":${strings},"b":"]}"}`).get('b'), '"]}"');
  });
});

describe('elements', () => {
  it('has the items that the text means', () => {
    fc.assert(
      fc.property(array, ({ text, means }) => {
        assert.deepEqual(
          elements(text).map((item) => parseJson(item)),
          means,
        );
      }),
      RUNS,
    );
  });

  it('keeps items as written', () => {
    assert.deepEqual(elements('[ 1.0 ,"a,]" , {"b":[ ]},\n-0]'), ['1.0', '"a,]"', '{"b":[ ]}', '-0']);
    assert.deepEqual(elements('[ \n ]'), []);
  });
});

describe('text that is no JSON', () => {
  it('is cut somehow or refused with a SyntaxError, and never goes on for ever', () => {
    const unit = fc.constantFrom('{', '}', '[', ']', '"', ',', ':', '\\', ' ', '1', 'a', '"a":');
    const text = fc.tuple(fc.constantFrom('{', '['), fc.string({ unit, maxLength: 12 })).map((parts) => parts.join(''));
    fc.assert(
      fc.property(text, (broken) => {
        for (const cut of [members, elements]) {
          try {
            cut(broken);
          } catch (error) {
            assert(error instanceof SyntaxError, String(error));
          }
        }
      }),
      { numRuns: 20_000 },
    );
  });
});

describe('objectText', () => {
  it('puts together what members took apart', () => {
    fc.assert(
      fc.property(object, ({ text, means }) => {
        const again = objectText(members(text));
        assert.deepEqual(parseJson(again), means);
        assert.deepEqual([...members(again)], [...members(text)]);
      }),
      RUNS,
    );
  });
});

describe('printJson', () => {
  it('prints plain values like JSON.stringify', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (plain) => assert.equal(printJson(plain), JSON.stringify(plain))),
      RUNS,
    );
    const special = [undefined, Number.NaN, -0, new Date(0), { a: undefined, b: new Date(0) }, [undefined, null]];
    assert.equal(printJson(special), JSON.stringify(special));
    // biome-ignore lint/suspicious/noSparseArray: holes are what is looked at
    assert.equal(printJson([, 1]), '[null,1]');
  });

  it('prints texts inside as they were written, wherever they are', () => {
    fc.assert(
      fc.property(value, ({ text }) => {
        const kept = JsonText.parse(text);
        assert.equal(printJson({ a: [kept, { b: kept }] }), `{"a":[${text.trim()},{"b":${text.trim()}}]}`);
      }),
      RUNS,
    );
  });

  it('takes a member named toJSON or __proto__ for data', () => {
    const value: unknown = JSON.parse('{"toJSON":"x","__proto__":1}');
    assert.equal(
      printJson({ ...(value as object), n: JsonText.trusted('1.0') }),
      '{"toJSON":"x","__proto__":1,"n":1.0}',
    );
  });
});

describe('a JSON text', () => {
  it('is exactly one value', () => {
    for (const bad of ['', ' ', '{} {}', '1,', '{"a":}', "{'a':1}", 'undefined', '\uFEFF1', '[1,]']) {
      assert.throws(() => JsonText.parse(bad), SyntaxError, bad);
    }
    assert.equal(JsonText.parse(' \n1.0\t').text, '1.0');
    assert.equal(JsonText.of({ a: [1] }).text, '{"a":[1]}');
    assert.deepEqual(JsonText.trusted('{"a":1}').value(), { a: 1 });
  });

  it('has a kind by its first character', () => {
    const kinds = ['{}', '[]', '"{"', '1', 'null'].map(jsonKind);
    assert.deepEqual(kinds, ['object', 'array', 'scalar', 'scalar', 'scalar']);
  });
});
