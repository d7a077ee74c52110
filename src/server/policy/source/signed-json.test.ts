import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseJson } from '../../../lib/json/json.js';
import { signedJson } from './signed-json.js';

function signed(text: string): string {
  const steps = signedJson(text);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

test('the form that OPA signs: members by their names as UTF-8, the last of a name, numbers as written', () => {
  for (const [text, form] of [
    [' {"b": 1.0, "a": {"é<": [1e2, 10.50, "x\\u2028\\u003c"]}}', '{"a":{"é<":[1e2,10.50,"x\\u2028<"]},"b":1.0}'],
    ['{"\\uffee":1,"\\ud83d\\ude00":2,"z":3}', '{"z":3,"\uffee":1,"😀":2}'],
    ['{"a":1,"a":{"a":2}, "a" : [ ] }', '{"a":[]}'],
    ['"\\ud800\\/\\b\\u001f\\u007f\\""', '"\uFFFD/\\b\\u001f\u007f\\""'],
    ['[{},[ ],"",[""],-0.0,true,false,null]', '[{},[],"",[""],-0.0,true,false,null]'],
    [' 1E+2 ', '1E+2'],
    ['{"__proto__":{"x":":,[]{}"}}', '{"__proto__":{"x":":,[]{}"}}'],
    ['["",""]', '["",""]'],
  ] as const) {
    assert.equal(signed(text), form);
  }
});

test('the form has the value of the text, and is the form of itself', () => {
  fc.assert(
    fc.property(fc.json({ noUnicodeString: false }), (text) => {
      const form = signed(text);
      assert.deepEqual(parseJson(form), parseJson(text));
      assert.equal(signed(form), form);
    }),
  );
});

test('what is nested as deep as OPA reads is read in one pass', () => {
  const deep = `${'{"a":[ '.repeat(5_000)}1${']}'.repeat(5_000)}`;
  assert.equal(signed(deep), deep.replaceAll(' ', ''));
});
