import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../errors.js';
import { type Proxies, readProxies } from './proxy.js';

const through = (proxies: Proxies, url: string): string | undefined => proxies.for(new URL(url))?.url.host;
const BOTH = { HTTP_PROXY: 'http://plain:3128', HTTPS_PROXY: 'http://secure:3129' };

test('HTTP_PROXY is for http and ws, HTTPS_PROXY for https and wss; lower case wins', () => {
  const proxies = readProxies(BOTH);
  assert.equal(through(proxies, 'http://api.example/x'), 'plain:3128');
  assert.equal(through(proxies, 'ws://api.example/x'), 'plain:3128');
  assert.equal(through(proxies, 'https://api.example/x'), 'secure:3129');
  assert.equal(through(proxies, 'wss://api.example/x'), 'secure:3129');
  const one = readProxies({ HTTP_PROXY: 'http://plain:3128', http_proxy: 'lower:1' });
  assert.equal(through(one, 'http://api.example'), 'lower:1');
  assert.equal(through(one, 'https://api.example'), undefined);
  assert.equal(through(readProxies({}), 'http://api.example'), undefined);
});

test('this machine is never behind a proxy', () => {
  const proxies = readProxies(BOTH);
  for (const host of ['localhost:8181', 'engine.localhost', '127.0.0.1', '127.8.9.1:99', '[::1]:8181']) {
    for (const scheme of ['http', 'https', 'ws', 'wss'])
      assert.equal(through(proxies, `${scheme}://${host}/`), undefined);
  }
  assert.equal(through(proxies, 'http://localhost.example'), 'plain:3128');
});

for (const [noProxy, excluded, proxied] of [
  ['*', ['http://a.example', 'https://10.0.0.1'], []],
  ['example', ['http://example', 'http://deep.api.example'], ['http://myexample', 'http://example.com']],
  ['.example', ['http://api.example', 'http://example'], ['http://other']],
  ['*.example', ['http://api.example'], ['http://other']],
  ['API.Example:8080', ['http://api.example:8080'], ['http://api.example', 'http://api.example:8081']],
  [
    'a.example, b.example c.example',
    ['http://a.example', 'http://b.example', 'http://c.example'],
    ['http://d.example'],
  ],
  ['api.example:443', ['https://api.example', 'wss://api.example'], ['http://api.example']],
  ['10.0.0.0/8', ['http://10.1.2.3:80'], ['http://11.0.0.1', 'http://10.example']],
  ['192.168.1.7', ['http://192.168.1.7'], ['http://192.168.1.70']],
  ['fd00::/8,[fe80::1]:8080', ['http://[fd12::1]', 'http://[fe80::1]:8080'], ['http://[fe80::1]', 'http://[fe80::2]']],
  ['10.0.0.0/99,x/8', [], ['http://10.1.2.3']],
] as const) {
  test(`NO_PROXY ${noProxy}`, () => {
    const proxies = readProxies({ ...BOTH, NO_PROXY: noProxy });
    for (const url of excluded) assert.equal(through(proxies, url), undefined, url);
    for (const url of proxied) assert.notEqual(through(proxies, url), undefined, url);
  });
}

test('credentials of the address are decoded, kept apart, and never shown', () => {
  const proxy = readProxies({ HTTP_PROXY: 'http://ann:p%40ss%3A@proxy:1' }).for(new URL('http://a.example'));
  assert.equal(proxy?.authorization?.reveal(), `Basic ${Buffer.from('ann:p@ss:').toString('base64')}`);
  assert.equal(proxy?.url.href, 'http://proxy:1/');
  assert.doesNotMatch(JSON.stringify(proxy), /p@ss|p%40ss|YW5u/);
});

for (const bad of [
  'http://ann:pass word@',
  'socks5://ann:hush-hush@proxy:1',
  'http://ann:hush-hush@proxy:99999',
  'http://%zz:hush-hush@proxy:1',
]) {
  test(`an address that is none is refused without showing it: ${bad.slice(0, 10)}`, () => {
    assert.throws(
      () => readProxies({ HTTPS_PROXY: bad }),
      (error) => {
        assert(error instanceof SyncError && error.code === 'config_invalid');
        assert.match(error.message, /^HTTPS_PROXY/);
        assert.equal(error.cause, undefined);
        assert.doesNotMatch(error.message, /hush|pass word/);
        return true;
      },
    );
  });
}
