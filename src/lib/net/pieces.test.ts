import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pieces } from './pieces.js';

test('pieces of every size come together in their order', () => {
  const sizes = [0, 1, 5, 1024, 1025, 3, 4096, 1, 70_000, 1000, 1000, 1000, 1000, 1000];
  const parts = sizes.map((size, index) => Buffer.alloc(size, index));
  const pieces = new Pieces();
  for (const part of parts) pieces.push(part);
  assert.equal(pieces.bytes, Buffer.concat(parts).length);
  assert.deepEqual(pieces.join(), Buffer.concat(parts));
  assert.equal(pieces.bytes, 0);
  assert.equal(pieces.join().length, 0);
});

test('what was taken stays as it is while more arrives', () => {
  const pieces = new Pieces();
  pieces.push(Buffer.from('first'));
  const taken = pieces.take();
  pieces.push(Buffer.from('second'));
  assert.equal(Buffer.concat(taken).toString(), 'first');
  assert.equal(pieces.join().toString(), 'second');
});

test('many small pieces are few parts, also between large ones', () => {
  const pieces = new Pieces();
  for (let at = 0; at < 100_000; at++) pieces.push(Buffer.from('x'));
  assert(pieces.take().length < 10);
  for (let at = 0; at < 100; at++) for (const size of [1, 2000]) pieces.push(Buffer.alloc(size));
  assert.equal(pieces.take().length, 200);
});
