import assert from 'node:assert/strict';
import { test } from 'node:test';
import { completeConfig, configuredCallbacks, DEFAULT_CALLBACK_CONFIG, readTarget, targetKey } from './targets.js';

const URL_ONLY = 'http://localhost:7002/data/callback_report';

test('the key of a callback is the one that OPAL computes', () => {
  const target = { url: URL_ONLY, config: DEFAULT_CALLBACK_CONFIG };
  assert.equal(targetKey(target), 'b62a7242e3386cf4ef615f33be0734f6b3ba34a6cd71156c65a633b6cda8c355');
});

test('a plain URL is called with the default configuration, a pair with exactly its own, by POST unless it says otherwise', () => {
  assert.deepEqual(readTarget(URL_ONLY, DEFAULT_CALLBACK_CONFIG), { url: URL_ONLY, config: DEFAULT_CALLBACK_CONFIG });
  const pair = readTarget([URL_ONLY, { headers: { 'x-key': 'k' } }], DEFAULT_CALLBACK_CONFIG);
  assert.deepEqual(pair?.config, {
    fetcher: null,
    headers: { 'x-key': 'k' },
    is_json: true,
    process_data: true,
    method: 'post',
    data: null,
  });
  // As an OPAL server prints it.
  const printed = { fetcher: null, headers: null, is_json: true, process_data: false, method: 'PUT', data: 'mine' };
  assert.deepEqual(readTarget([URL_ONLY, printed], DEFAULT_CALLBACK_CONFIG)?.config, {
    ...completeConfig({}),
    process_data: false,
    method: 'put',
  });
});

test('an item that cannot be called is no target', () => {
  const bad = [
    'ftp://x/y',
    'not a URL',
    '',
    7,
    null,
    [URL_ONLY],
    [URL_ONLY, { method: 'brew' }],
    [URL_ONLY, { fetcher: 'PostgresFetchProvider' }],
    [URL_ONLY, { headers: { 'x-key': 'a\r\nx-other: b' } }],
    [URL_ONLY, { headers: { 'x key': 'a' } }],
    `http://x/${'y'.repeat(3000)}`,
  ];
  for (const item of bad) assert.equal(readTarget(item, DEFAULT_CALLBACK_CONFIG), undefined, JSON.stringify(item));
});

test('a configured callback that cannot be called is refused, without its headers in the message', () => {
  assert(configuredCallbacks.safeParse({ callbacks: [URL_ONLY, [URL_ONLY, { headers: { a: 'b' } }]] }).success);
  assert(!configuredCallbacks.safeParse({ callbacks: ['ftp://x'] }).success);
  assert(!configuredCallbacks.safeParse([URL_ONLY]).success);
  const refused = configuredCallbacks.safeParse({ callbacks: [[URL_ONLY, { headers: { a: 's3cret\n' } }]] });
  assert(!refused.success && !refused.error.message.includes('s3cret'));
});
