import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escapeControls, forTerminal, withoutControls } from './control-characters.js';

const RED = '\u001b[31mred\u001b[39m';
const HOSTILE = 'a\u001b[2J\u001b]0;t\u0007\r\u009b2Jb\u009d0;t\u009c\u202e\u2066\u2028\u061c';

test('a terminal gets newlines and colours, and no other control character', () => {
  assert.equal(forTerminal(`${RED}\n${RED}`), `${RED}\n${RED}`);
  assert.equal(forTerminal(HOSTILE), 'a [2J ]0;t  \u00202Jb 0;t     ');
  assert.equal(forTerminal('\u001b[999999999999999999999999m'), ' [999999999999999999999999m');
});

test('a line has none at all', () => {
  assert.doesNotMatch(withoutControls(`${RED}\n\t${HOSTILE}`), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  assert.equal(withoutControls('é 日本 a-b'), 'é 日本 a-b');
});

test('an escape says what was there', () => {
  assert.equal(escapeControls('a\n\t\u009b\u202e'), 'a\\n\\t\\u009b\\u202e');
});
