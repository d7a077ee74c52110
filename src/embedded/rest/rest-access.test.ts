import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mayAsk, restRoute } from './rest-target.js';

const ORIGINS = ['http://localhost:8181', 'https://app.example'];

function may(method: string, url: string, headers: Record<string, string> = {}, origins = ORIGINS): boolean {
  const [path = '', query = ''] = url.split('?', 2);
  const route = restRoute(method, path);
  assert(route !== undefined, url);
  return mayAsk(route, { method, query, headers }, origins);
}

test('programs may ask; pages of listed origins too', () => {
  for (const path of ['/v1/data/a', '/v1/policies', '/health', '/']) assert(may('GET', path), path);
  for (const origin of ORIGINS) assert(may('POST', '/v1/data/a', { origin }), origin);
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
  assert(may('POST', '/v1/data', { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }, ['*']));
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
