import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { ClientAddresses } from './client-address.js';

function from(proxies: readonly string[], remoteAddress: string | undefined, forwarded?: string): string {
  const socket = { remoteAddress } as Parameters<ClientAddresses['of']>[0]['socket'];
  return new ClientAddresses(proxies).of({
    socket,
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  });
}

test('without trusted proxies nobody says where he comes from', () => {
  assert.equal(from([], '203.0.113.7', '10.0.0.1'), '203.0.113.7');
  assert.equal(from([], '::ffff:203.0.113.7', '10.0.0.1'), '203.0.113.7');
  assert.equal(from(['10.0.0.0/8'], '203.0.113.7', '198.51.100.1'), '203.0.113.7');
  assert.equal(from(['10.0.0.0/8'], undefined, '198.51.100.1'), '?');
});

test('behind trusted proxies it is the rightmost address that is none of them', () => {
  const proxies = ['10.0.0.0/8', '2001:db8::/32', '192.0.2.4'];
  assert.equal(from(proxies, '10.1.2.3', '198.51.100.1'), '198.51.100.1');
  assert.equal(from(proxies, '::ffff:10.1.2.3', '1.1.1.1, 198.51.100.1, 192.0.2.4'), '198.51.100.1');
  assert.equal(from(proxies, '2001:db8::1', '[2001:dead::9]:4711,10.0.0.1'), '2001:dead::9');
  assert.equal(from(proxies, '10.1.2.3', '198.51.100.1:5000'), '198.51.100.1');
});

test('a proxy is one in every form of its address: a listener on :: has IPv4 peers as ::ffff:10.0.0.1', () => {
  const addresses = new ClientAddresses(['10.0.0.0/8', '2001:db8::/32']);
  const isFromProxy = (remoteAddress: string | undefined): boolean =>
    addresses.isFromProxy({ remoteAddress } as Parameters<ClientAddresses['isFromProxy']>[0]);
  for (const proxy of ['10.1.2.3', '::ffff:10.1.2.3', '2001:DB8:0::1']) assert.equal(isFromProxy(proxy), true, proxy);
  for (const other of ['203.0.113.7', '::ffff:203.0.113.7', '', undefined]) assert.equal(isFromProxy(other), false);
});

test('what is no address, and all to the left of it, counts for nothing', () => {
  const proxies = ['10.0.0.0/8'];
  assert.equal(from(proxies, '10.1.2.3'), '10.1.2.3');
  assert.equal(from(proxies, '10.1.2.3', ''), '10.1.2.3');
  assert.equal(from(proxies, '10.1.2.3', 'unknown'), '10.1.2.3');
  assert.equal(from(proxies, '10.1.2.3', '198.51.100.1, () { :; }; id, 10.0.0.9'), '10.0.0.9');
  assert.equal(from(proxies, '10.1.2.3', '10.0.0.8, 10.0.0.9'), '10.0.0.8');
});

test('a proxy that is no address is named', () => {
  for (const bad of ['load-balancer', '10.0.0.0/33', '10.0.0']) {
    assert.throws(
      () => new ClientAddresses([bad]),
      (error) => error instanceof SyncError && error.code === 'config_invalid' && error.message.includes(bad),
    );
  }
});
