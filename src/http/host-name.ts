import { canonicalAddress } from '../lib/address.js';
import { isLoopback } from '../lib/proxy.js';

/** The name or address of a `Host` header, in one spelling, without its port. */
export function hostName(host: string): string {
  const name = host
    .trim()
    .toLowerCase()
    .replace(/(?<=^[^:]*|\]):\d*$/, '')
    .replace(/\.$/, '');
  return canonicalAddress(name) ?? name;
}

/** Whether a `Host` header is a name of this machine itself: localhost, or a loopback address, with or without a port. */
export function isLoopbackHost(header: string | undefined): boolean {
  return header !== undefined && isLoopback(hostName(header));
}
