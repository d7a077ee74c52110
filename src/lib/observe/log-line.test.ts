import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseJson } from '../json/json.js';
import { jsonLine, readableLine } from './log-line.js';

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

test('a line has no control character but its end, and means what it meant', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' })), (fields) => {
      const line = `${JSON.stringify(fields)}\n`;
      const written = jsonLine(line);
      assert.doesNotMatch(written.slice(0, -1), UNSEEN);
      assert(written.endsWith('}\n'));
      assert.deepEqual(parseJson(written), parseJson(line));
    }),
  );
});

test('for a reader the escapes are the text', () => {
  const line = JSON.stringify({ msg: 'a\u009b2J\u202e\u{e0001}', 'k\u2028': '\\u009b' });
  const read = JSON.parse(readableLine(line));
  assert.deepEqual(read, { msg: 'a\\u009b2J\\u202e\\udb40\\udc01', 'k\\u2028': '\\u009b' });
});

test('a long line says how much it leaves out', () => {
  const text = 'x'.repeat(40_000);
  const lineOf = (fields: object): Record<string, unknown> => {
    const line = jsonLine(`${JSON.stringify({ level: 'info', time: 't', name: 'p', ...fields })}\n`);
    assert(line.length < 33_000);
    return JSON.parse(line);
  };
  const cut = `${'x'.repeat(2_000)}... (40000 characters)`;
  const whole = { level: 'info', time: 't', name: 'p' };
  assert.deepEqual(lineOf({ id: text, n: 1, msg: 'said' }), { ...whole, id: cut, n: 1, msg: 'said' });
  assert.deepEqual(lineOf({ ids: Array(60).fill(text.slice(0, 600)), msg: 'm' }).ids, [
    ...Array(50).fill(text.slice(0, 600)),
    '... (60 items)',
  ]);
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`k${index}`, text]));
  assert.deepEqual(lineOf({ ...many, msg: 'm' }), { ...whole, left_out: 'fields that are too long', msg: 'm' });
});

test('a line of usual length is written as it is', () => {
  const line = `${JSON.stringify({ msg: 'é 日本 \ud83d\ude00', n: Array(100).fill(1) })}\n`;
  assert.equal(jsonLine(line), line);
});
