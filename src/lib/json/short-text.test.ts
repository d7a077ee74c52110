import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shortText } from './short-text.js';

test('only a text that is too long is cut, to the length that was asked for', () => {
  assert.equal(shortText('', 3), '');
  assert.equal(shortText('abc', 3), 'abc');
  assert.equal(shortText('abcd', 3), 'ab…');
});
