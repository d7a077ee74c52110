import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canonicalAddress } from '../../lib/net/address.js';
import { isLinkLocal, isLoopbackAddress } from './address.js';

test('an address has one form, however it is written', () => {
  for (const [text, form] of [
    ['127.0.0.1', '127.0.0.1'],
    ['::ffff:127.0.0.1', '127.0.0.1'],
    ['[::FFFF:7f00:1]', '127.0.0.1'],
    ['0:0:0:0:0:ffff:7f00:0001', '127.0.0.1'],
    ['::127.0.0.1', '127.0.0.1'],
    ['64:ff9b::169.254.169.254', '169.254.169.254'],
    ['::1', '::1'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['::', '::'],
    ['FE80::1%eth0', 'fe80::1'],
    ['fd00:ec2::254', 'fd00:ec2::254'],
  ] as const) {
    assert.equal(canonicalAddress(text), form, text);
  }
  for (const text of ['localhost', '127.1', '2130706433', '0x7f000001', '127.0.0.01', '', 'a::b::c']) {
    assert.equal(canonicalAddress(text), undefined, text);
  }
});

test('loopback, unspecified and link-local addresses are known', () => {
  for (const address of ['127.0.0.1', '127.9.9.9', '0.0.0.0', '::', '::1']) assert(isLoopbackAddress(address), address);
  for (const address of ['128.0.0.1', '10.0.0.1', 'fe80::1']) assert(!isLoopbackAddress(address), address);
  const metadata = ['fd00:ec2::254', '100.100.100.200', '168.63.129.16', 'metadata.google.internal'];
  for (const address of ['169.254.169.254', '169.254.0.1', 'fe80::1', 'febf::1', ...metadata]) {
    assert(isLinkLocal(address), address);
  }
  for (const address of ['169.253.0.1', '10.0.0.1', 'fd00::1', 'google.internal'])
    assert(!isLinkLocal(address), address);
});
