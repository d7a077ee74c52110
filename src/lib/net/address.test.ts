import assert from 'node:assert/strict';
import { test } from 'node:test';
import { networkOf } from './address.js';

test('an address of IPv6 is one of its network of 64 bits; everything else is itself', () => {
  for (const [text, network] of [
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:0:1:2:3:4:5', '2001:db8:0:1::/64'],
    ['2001:db8:1::', '2001:db8:1:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['1:2:3:4:5:6:7::', '1:2:3:4::/64'],
    ['203.0.113.7', '203.0.113.7'],
    ['?', '?'],
    ['urn:a:b', 'urn:a:b'],
  ] as const)
    assert.equal(networkOf(text), network, text);
});
