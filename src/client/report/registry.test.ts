import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { CallbackRegistry } from './registry.js';
import { completeConfig, DEFAULT_CALLBACK_CONFIG, targetKey } from './targets.js';

const A = { url: 'http://a/cb', config: DEFAULT_CALLBACK_CONFIG };

test('a target without a key is registered once, under the key made of it', () => {
  const registry = new CallbackRegistry([A, A]);
  assert.deepEqual(registry.all(), [{ key: targetKey(A), ...A }]);
  registry.put({ ...A, config: completeConfig({ method: 'put' }) });
  assert.equal(registry.all().length, 2);
});

test('the same target under a key of its own takes the place of the automatic one, and of what had the key', () => {
  const registry = new CallbackRegistry([A]);
  registry.put(A, 'mine');
  assert.deepEqual(
    registry.all().map(({ key }) => key),
    ['mine'],
  );
  registry.put({ ...A, url: 'http://b/cb' }, 'mine');
  assert.equal(registry.get('mine')?.url, 'http://b/cb');
  assert.equal(registry.all().length, 1);
  assert.equal(registry.delete('mine'), true);
  assert.equal(registry.delete('mine'), false);
});

test('there is room for a hundred callbacks; one that is there can still be replaced', () => {
  const registry = new CallbackRegistry([]);
  for (let at = 0; at < 100; at++) registry.put({ ...A, url: `http://a/${at}` }, `k${at}`);
  assert.throws(
    () => registry.put(A),
    (error) => error instanceof SyncError && error.code === 'callback_limit',
  );
  registry.put(A, 'k7');
  assert.equal(registry.get('k7')?.url, A.url);
  assert.equal(registry.all().length, 100);
});
