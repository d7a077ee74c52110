import { isIP } from 'node:net';
import { AddressRanges } from '../../lib/net/address.js';

const LOOPBACK = new AddressRanges(['127.0.0.0/8', '::1', '0.0.0.0/8', '::']);

/**
 * Whether an address always means this machine: loopback, and the unspecified addresses, which
 * connect to it.
 */
export function isLoopbackAddress(address: string): boolean {
  return LOOPBACK.has(address);
}

/** Link-local addresses, and the metadata services of clouds, which provide credentials. */
const LINK_LOCAL = new AddressRanges([
  '169.254.0.0/16',
  'fe80::/10',
  'fd00:ec2::/32', // Amazon
  'fd20:ce::254', // Google
  '100.100.100.200', // Alibaba
  '168.63.129.16', // Azure
  '192.0.0.192', // Oracle
]);
/** Their names, for lookups by a proxy. */
const METADATA_NAMES = ['metadata', 'metadata.google.internal', 'metadata.goog', 'instance-data'];

/**
 * Whether a host is link-local or the metadata service of a cloud; `host`: a canonical address or a
 * name.
 */
export function isLinkLocal(host: string): boolean {
  return isIP(host) === 0 ? METADATA_NAMES.includes(host) : LINK_LOCAL.has(host);
}
