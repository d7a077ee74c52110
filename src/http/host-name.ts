import { canonicalAddress } from '../lib/net/address.js';
import { isLoopback } from '../lib/net/proxy.js';

/**
 * The name or address of a `Host` header, in one spelling, without its port. Anybody may send one
 * of any length.
 */
export function hostName(host: string): string {
  const full = withoutPort(host.trim().toLowerCase());
  const name = full.endsWith('.') ? full.slice(0, -1) : full;
  return canonicalAddress(name) ?? name;
}

/**
 * Of several colons only one after a bracket is that of a port: an address of IPv6 may be without
 * brackets.
 */
function withoutPort(host: string): string {
  const colon = host.lastIndexOf(':');
  const isPort = colon !== -1 && (host.indexOf(':') === colon || host[colon - 1] === ']');
  return isPort && /^\d*$/.test(host.slice(colon + 1)) ? host.slice(0, colon) : host;
}

/**
 * Whether a `Host` header is a name of this machine itself: localhost, or a loopback address, with
 * or without a port.
 */
export function isLoopbackHost(header: string | undefined): boolean {
  return header !== undefined && isLoopback(hostName(header));
}
