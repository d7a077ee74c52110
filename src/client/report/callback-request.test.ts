import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/log.js';
import { callbackRequest, type OwnServer, redirected } from './callback-request.js';
import { completeConfig, DEFAULT_CALLBACK_CONFIG } from './targets.js';

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
