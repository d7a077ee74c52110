import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteCache } from './byte-cache.js';

test('keeps what was used last within the budget', () => {
  const cache = new ByteCache<string>(6, (text) => text.length);
  cache.set('a', 'aa');
  cache.set('b', 'bb');
  cache.set('c', 'cc');
  assert.equal(cache.get('a'), 'aa');
  cache.set('d', 'dd');
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((key) => cache.get(key)),
    ['aa', undefined, 'cc', 'dd'],
  );
});

test('does not keep what is larger than the budget, and counts a replaced value once', () => {
  const cache = new ByteCache<string>(4, (text) => text.length);
  cache.set('a', 'aa');
  cache.set('big', '12345');
  assert.deepEqual([cache.get('big'), cache.get('a')], [undefined, 'aa']);
  cache.set('a', 'aaa');
  cache.set('b', 'b');
  assert.deepEqual([cache.get('a'), cache.get('b')], ['aaa', 'b']);
});

test('a value that has grown counts with its new size, as long as it is kept', () => {
  const cache = new ByteCache<{ size: number }>(6, ({ size }) => size);
  const [grows, other, gone] = [{ size: 2 }, { size: 2 }, { size: 1 }];
  cache.set('other', other);
  cache.set('grows', grows);
  grows.size = 5;
  cache.measure('grows', grows);
  assert.deepEqual([cache.get('other'), cache.get('grows')], [undefined, grows]);
  cache.measure('gone', gone);
  assert.equal(cache.get('gone'), undefined);
  grows.size = 7;
  cache.measure('grows', grows);
  cache.set('other', other);
  assert.deepEqual([cache.get('other'), cache.get('grows')], [other, undefined]);
});
