import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listedBy } from './listed-option.js';

test('an option that lists words takes them with commas and repeated, and none that is empty', () => {
  const read = listedBy('--topic');
  assert.deepEqual(read('a,b/c'), ['a', 'b/c']);
  assert.deepEqual(read(' d , e,', read('a')), ['a', 'd', 'e']);
  for (const text of ['', ',', ' , ']) assert.throws(() => read(text), /--topic has an empty value/);
});
