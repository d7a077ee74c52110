import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lineAt, lineNotUtf8 } from './text-lines.js';

test('the line of a byte', () => {
  const bytes = Buffer.from('a\nb\n\nc');
  assert.deepEqual(
    [0, 1, 2, 4, 5, 99].map((offset) => lineAt(bytes, offset)),
    [1, 1, 2, 3, 4, 4],
  );
});

test('the first line that is not UTF-8', () => {
  const line = (text: string): number | undefined => lineNotUtf8(Buffer.from(text, 'latin1'));
  assert.deepEqual(['', 'a\nb', '\xff', 'a\n\n\xc3', 'a\n\xc3\n\xa9\n', '\xc3\xa9\n\xff\n'].map(line), [
    ...[undefined, undefined, 1, 3, 2, 2],
  ]);
});
