import { isIP } from 'node:net';
import { AddressRanges } from '../../lib/address.js';

const LOOPBACK = new AddressRanges(['127.0.0.0/8', '::1', '0.0.0.0/8', '::']);

/** True for addresses that lead to this machine by themselves: loopback, and the unspecified ones, which connect to it. */
export function isLoopbackAddress(address: string): boolean {
  return LOOPBACK.has(address);
}

/** Link-local addresses, and the metadata services of clouds, which give out credentials. */
const LINK_LOCAL = new AddressRanges([
  '169.254.0.0/16',
  'fe80::/10',
  'fd00:ec2::/32', // Amazon
  'fd20:ce::254', // Google
  '100.100.100.200', // Alibaba
  '168.63.129.16', // Azure
  '192.0.0.192', // Oracle
]);
/** Their names, for look-ups by a proxy. */
const METADATA_NAMES = ['metadata', 'metadata.google.internal', 'metadata.goog', 'instance-data'];

/** True for a link-local address or one of a cloud's metadata service; `host` is a canonical address or a name. */
export function isLinkLocal(host: string): boolean {
  return isIP(host) === 0 ? METADATA_NAMES.includes(host) : LINK_LOCAL.has(host);
}
