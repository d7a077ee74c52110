import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { MAX_CALL_BYTES, withoutPublished } from './large-frame.js';

const cut = (value: unknown): unknown => JSON.parse(withoutPublished(Buffer.from(JSON.stringify(value))));

test('what a call publishes is left out, and nothing else', () => {
  assert.deepEqual(
    cut({ request: { method: 'publish', arguments: { topics: ['a'], data: { data: [1] } }, call_id: 'x' } }),
    {
      request: { method: 'publish', arguments: { topics: ['a'], data: null }, call_id: 'x' },
    },
  );
  for (const other of [
    { data: { arguments: { data: 1 } } },
    { request: { data: { data: 1 } } },
    { request: { other: { data: 1 } } },
    { response: { arguments: { data: 1 } }, request: { method: 'x', arguments: { x: { data: 1 } } } },
    [{ request: { arguments: { data: 1 } } }],
  ]) {
    assert.deepEqual(cut(other), other);
  }
  const spelled = '{"request" : {"arguments" :{ "d\\u0061ta" : [1] , "data":2,"x":3}}}';
  assert.deepEqual(JSON.parse(withoutPublished(Buffer.from(spelled))), {
    request: { arguments: { data: null, x: 3 } },
  });
});

test('a call with more beside its data than any has is refused before it is read', () => {
  const long = 'x'.repeat(MAX_CALL_BYTES);
  for (const frame of [{ request: { method: 'report', arguments: { failing: long } } }, { response: long }]) {
    assert.throws(
      () => cut(frame),
      (error) =>
        error instanceof SyncError && error.code === 'frame_invalid' && /bytes beside the data/.test(error.message),
    );
  }
  assert.throws(
    () => withoutPublished(Buffer.from('{"request":')),
    (error) => error instanceof SyncError && error.code === 'frame_invalid',
  );
});
