import type { IncomingMessage } from 'node:http';
import { canonicalAddress } from '../lib/address.js';
import { SyncError } from '../lib/errors.js';
import { isLoopback } from '../lib/proxy.js';

/** Most `Host` headers that are cached. */
const MAX_TAKEN = 100;

/** Throws `host_refused` (421) for a request under a foreign name. */
export type HostCheck = (request: Pick<IncomingMessage, 'headers' | 'url'>) => void;

/**
 * A web page can point its own name at 127.0.0.1 after it was loaded (DNS rebinding); for the browser we are then its origin. It cannot
 * change the name in its requests. So a listener on loopback accepts loopback names and `names` alone (SYNC_ALLOWED_HOSTS; `.example`
 * for all below it). Another listener accepts every name unless some are set. A request without a name (HTTP/1.0) comes from no browser.
 */
export function createHostCheck({ host, names }: { host: string; names: readonly string[] }): HostCheck {
  const listensOnLoopback = isLoopback(nameOf(host));
  if (!listensOnLoopback && names.length === 0) return () => undefined;
  const wanted = names.map((name) => name.toLowerCase());
  const isOurs = (name: string): boolean =>
    isLoopback(name) || wanted.some((one) => (one.startsWith('.') ? name.endsWith(one) : name === nameOf(one)));
  /** Accepted `Host` headers: nearly all callers send one of a few. */
  const taken = new Set<string>();
  return ({ headers, url = '' }) => {
    const { host: header = '' } = headers;
    if (url.startsWith('/') && taken.has(header)) return;
    const asked = [headers.host, /^https?:\/\/(?:[^/@]*@)?([^/?#]*)/i.exec(url)?.[1]];
    for (const name of asked) {
      if (name === undefined || isOurs(nameOf(name))) continue;
      const text = `this address is not ${JSON.stringify(name.slice(0, 100))}: ask by the name it has, or add this one to SYNC_ALLOWED_HOSTS`;
      throw new SyncError('host_refused', text);
    }
    if (header !== '' && taken.size < MAX_TAKEN) taken.add(header);
  };
}

/** The name or address of a `Host` header, in one spelling, without its port. */
function nameOf(host: string): string {
  const name = host
    .trim()
    .toLowerCase()
    .replace(/(?<=^[^:]*|\]):\d*$/, '')
    .replace(/\.$/, '');
  return canonicalAddress(name) ?? name;
}
