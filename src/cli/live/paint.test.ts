import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paint, styleOf, wrapWords } from './paint.js';

const PLAIN = { hasColour: false, isUnicode: true };
const ESC = '\u001b';

test('colours and signs are those that the terminal has', () => {
  assert.deepEqual(styleOf({ LANG: 'C.UTF-8' }), { hasColour: true, isUnicode: true });
  assert.deepEqual(styleOf({ LANG: 'de_DE.utf8', NO_COLOR: '1' }), { hasColour: false, isUnicode: true });
  assert.deepEqual(styleOf({ LC_ALL: 'C', LANG: 'C.UTF-8', TERM: 'dumb' }), { hasColour: false, isUnicode: false });
  assert.deepEqual(styleOf({}), { hasColour: true, isUnicode: false });
});

test('a weight has a begin and an end, and what others write has no control over the terminal', () => {
  const words = [{ text: '2\u00a0refused', tone: 'bad' as const }, { text: ` · a${ESC}[2Jb` }];
  assert.equal(paint(words, { hasColour: true, isUnicode: true }), `${ESC}[31m2 refused${ESC}[39m · a [2Jb`);
  assert.equal(paint(words, { hasColour: false, isUnicode: false }), '2 refused - a [2Jb');
});

test('lines break at spaces, never inside a number and its unit, and are not longer than the terminal', () => {
  const words = [{ text: 'Not yet: ', tone: 'strong' as const }, { text: '61 of 122 hold, 2\u00a0refused' }];
  assert.deepEqual(wrapWords(words, { width: 16, style: PLAIN }), ['Not yet: 61 of', '122 hold,', '2 refused']);
  const long = wrapWords([{ text: 'x'.repeat(50) }], { width: 20, style: PLAIN });
  assert.deepEqual(long, ['x'.repeat(20)]);
});
