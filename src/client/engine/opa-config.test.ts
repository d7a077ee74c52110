import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { configOverrides } from './opa-config.js';

test('our configuration becomes single values, with special characters of keys escaped', () => {
  const text = JSON.stringify({ services: { 'a.b': { url: 'http://x', n: 3, on: true } }, bundles: {} });
  assert.deepEqual(configOverrides(text), [
    { path: 'services.a\\.b.url', value: 'http://x' },
    { path: 'services.a\\.b.n', value: 3 },
    { path: 'services.a\\.b.on', value: true },
  ]);
});

test('a list cannot be laid over a configuration file', () => {
  assert.throws(
    () => configOverrides('{"a":{"b":[1]}}'),
    (error) => error instanceof SyncError && error.code === 'config_invalid' && error.message.includes('"a.b"'),
  );
});
