import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mayAsk, type RestAccess } from './rest-access.js';
import { restRoute } from './rest-target.js';

const ACCESS: RestAccess = { origins: ['http://localhost:8181', 'https://app.example'], freeQueries: true };

function may(method: string, url: string, headers: Record<string, string> = {}, access = ACCESS): boolean {
  const [path = '', query = ''] = url.split('?', 2);
  const route = restRoute(method, path);
  assert(route !== undefined, url);
  return mayAsk(route, { method, query, headers }, access);
}

test('programs may ask; pages of listed origins too', () => {
  for (const path of ['/v1/data/a', '/v1/policies', '/health', '/']) assert(may('GET', path), path);
  for (const origin of ACCESS.origins) assert(may('POST', '/v1/data/a', { origin }), origin);
  assert(may('GET', '/v1/data', { 'sec-fetch-site': 'same-origin' }));
  assert(may('GET', '/v1/data', { 'sec-fetch-site': 'none' }));
});

test('pages of other origins may not, by Origin or by Sec-Fetch-Site', () => {
  const origins = ['https://evil.example', 'null', '', 'http://localhost:8182', 'HTTP://LOCALHOST:8181'];
  for (const origin of [...origins, 'http://localhost:8181, https://evil.example', '*'])
    assert(!may('POST', '/v1/data/a', { origin }), origin);
  for (const site of ['cross-site', 'same-site', 'same-origin, cross-site'])
    assert(!may('GET', '/v1/data/a', { 'sec-fetch-site': site }), site);
  // As in the inline engine: a listed origin may ask from another site.
  assert(may('POST', '/v1/data/a', { origin: 'https://app.example', 'sec-fetch-site': 'cross-site' }));
});

test('with * all pages may', () => {
  const all = { ...ACCESS, origins: ['*'] };
  assert(may('POST', '/v1/data', { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }, all));
});

test('a query in a URL that could reach out is for nobody, however it is spelled', () => {
  for (const q of [
    'x:=http.send({})',
    'opa.runtime()',
    'net.lookup_ip_addr(%22a%22)',
    'x=1;%20%68ttp.send({})',
    'http',
  ])
    assert(!may('GET', `/v1/query?q=${q}`), q);
  assert(!may('GET', '/v1/query?q=1&q=http.send({})'));
  assert(!may('GET', '/v1/query?%71=http.send({})'));
  assert(!may('GET', '/v1/query?q=%ffhttp%ff'));
  assert(!may('GET', '/v1/query?q=a+http+b'));
  for (const q of ['data.app.allow', 'x:=httpx', 'x:=%22internet%22', '']) assert(may('GET', `/v1/query?q=${q}`), q);
  assert(may('POST', '/v1/query?q=http'), 'only a GET can come from a page without an origin');
});

test('free queries can be off', () => {
  const off = { ...ACCESS, freeQueries: false };
  for (const [method, path] of [
    ['GET', '/v1/query?q=1'],
    ['POST', '/v1/query'],
    ['POST', '/v1/compile'],
    ['POST', '/v1/compile/app/filter'],
  ] as const)
    assert(!may(method, path, {}, off), path);
  assert(may('POST', '/v1/data/a', {}, off));
});
