import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { Secret } from '../../lib/observe/log.js';
import {
  CallbackRegistry,
  callbackRequest,
  completeConfig,
  configuredCallbacks,
  DEFAULT_CALLBACK_CONFIG,
  type OwnServer,
  readTarget,
  redirected,
  targetKey,
} from './callbacks.js';

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

const OWN = { url: 'https://sync.example/base', token: new Secret('t0ken') };
const NONE = { url: 'https://sync.example/base', token: undefined };

function authorization(url: string, headers?: Record<string, string>, own: OwnServer = OWN): string | undefined {
  const config = headers === undefined ? DEFAULT_CALLBACK_CONFIG : completeConfig({ headers });
  return callbackRequest({ url, config }, '{}', own, true).headers.authorization;
}

test('the token of the client goes to its own server and to nobody else', () => {
  assert.equal(authorization('https://sync.example/base/data/callback_report'), 'Bearer t0ken');
  assert.equal(authorization('https://SYNC.example:443/base/x'), 'Bearer t0ken');
  const ws = { ...OWN, url: 'wss://sync.example/base' };
  assert.equal(authorization('https://sync.example/base/x', undefined, ws), 'Bearer t0ken');
  for (const url of [
    'http://sync.example/base/x',
    'https://sync.example:8443/base/x',
    'https://sync.example.evil/base/x',
    'https://evil/base/x?https://sync.example/base',
    'https://sync.example@evil/base/x',
    'https://sync.example/other',
    'https://sync.example/basement',
    'https://sync.example/base/../other',
    'https://sync.example/base/%2e%2e/other',
  ]) {
    const given = authorization(url);
    assert(given === undefined || given.startsWith('Basic '), url);
  }
  assert.equal(authorization('https://sync.example/base/x', undefined, NONE), undefined);
});

test('a callback that a peer named gets the token on the route for reports alone, and under no other name', () => {
  const named = (url: string, headers: Record<string, string> = {}): string | undefined =>
    callbackRequest({ url, config: completeConfig({ headers }) }, '{}', OWN, false).headers.authorization;
  assert.equal(named('https://sync.example/base/data/callback_report'), 'Bearer t0ken');
  assert.equal(named('https://sync.example/base/data/callback_report', { Host: 'other.example' }), undefined);
  for (const path of [
    '',
    '/base/x',
    '/base/data/callback_report/',
    '/data/callback_report',
    '/base/data/callback_report/../config',
  ])
    assert.equal(named(`https://sync.example${path}`), undefined, path);
});

test('configured authorization wins over the token, in the URL too', () => {
  assert.equal(authorization('https://sync.example/base/x', { AUTHORIZATION: 'Own x' }), 'Own x');
  const inUrl = callbackRequest(
    { url: 'https://u%3A:p@sync.example/base/x', config: completeConfig({}) },
    '{}',
    OWN,
    true,
  );
  assert.equal(inUrl.headers.authorization, `Basic ${Buffer.from('u::p').toString('base64')}`);
  assert.equal(inUrl.url.href, 'https://sync.example/base/x');
});

test('the report is the body, as JSON unless another type is configured; headers of the connection are not configurable', () => {
  const request = callbackRequest({ url: 'http://r/cb#f', config: DEFAULT_CALLBACK_CONFIG }, '{"a":1}', OWN, true);
  assert.deepEqual(request, {
    url: new URL('http://r/cb'),
    method: 'POST',
    headers: { accept: '*/*', 'content-type': 'application/json', 'user-agent': 'policysync' },
    body: '{"a":1}',
  });
  const headers = { 'Content-Type': 'application/x', 'Content-Length': '3', Connection: 'close', 'X-A': 'b' };
  const config = completeConfig({ headers, method: 'put', data: 'mine' });
  const own = callbackRequest({ url: 'http://r/cb', config }, '{}', OWN, true);
  assert.equal(own.method, 'PUT');
  assert.equal(own.body, '{}');
  assert.deepEqual(own.headers, {
    accept: '*/*',
    'content-type': 'application/x',
    'user-agent': 'policysync',
    'x-a': 'b',
  });
});

test('a redirect keeps method and report; another origin gets neither the token nor configured headers', () => {
  const config = completeConfig({ headers: { 'x-key': 'k' } });
  const first = callbackRequest({ url: 'https://sync.example/base/x', config }, '{}', OWN, true);
  assert.equal(first.headers.authorization, 'Bearer t0ken');
  const near = redirected(first, new URL('https://sync.example/base/y'));
  assert.deepEqual(near, { ...first, url: new URL('https://sync.example/base/y') });
  for (const location of ['https://evil/x', 'http://sync.example/base/x', 'https://u:p@evil/x']) {
    const far = redirected(first, new URL(location));
    assert.deepEqual(Object.keys(far.headers).sort(), ['accept', 'content-type', 'user-agent'], location);
    assert.equal(far.method, 'POST');
    assert.equal(far.body, '{}');
    assert.equal(far.url.username, '');
    const back = redirected(far, new URL('https://sync.example/base/x'));
    assert.equal(back.headers.authorization, undefined);
  }
});
