import { isIP } from 'node:net';
import { AddressRanges, canonicalAddress } from './address.js';
import type { Endpoint } from './tls.js';

/** One item of SYNC_FETCH_ALLOW, SYNC_FETCH_DENY or NO_PROXY. */
export interface PlaceRule {
  /** As it was written. */
  readonly text: string;
  /** True where the name alone decides. */
  fitsName(target: Endpoint): boolean;
  /** True for an address that the item is, or has in its range. */
  fitsAddress(address: string, port: number): boolean;
  /** The address, or the one that the range begins with; undefined for a name. */
  readonly address: string | undefined;
}

/**
 * Reads an item: a name, `.suffix` (the name and all below it), an address or a range `10.0.0.0/8`,
 * each with `:port` if wanted; IPv6 with a port in brackets, `[fd00::]/8:443`. Throws an `Error`
 * that says what is wrong with it.
 */
export function placeRule(text: string): PlaceRule {
  const { host, bits, port } = parts(text);
  const fitsPort = (at: number): boolean => port === undefined || port === at;
  const address = canonicalAddress(host);
  if (address !== undefined) {
    const ranges = ranged(text, bits === undefined ? host : `${host}/${bits}`);
    return {
      text,
      fitsName: () => false,
      fitsAddress: (at, atPort) => fitsPort(atPort) && ranges.has(at),
      address,
    };
  }
  if (bits !== undefined || !/^(?:\*?\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/.test(host) || isNumeric(host)) throw bad(text);
  const name = host.replace(/^\*?\./, '');
  const isSuffix = name !== host;
  return {
    text,
    fitsName: (target) =>
      fitsPort(target.port) && (target.host === name || (isSuffix && target.host.endsWith(`.${name}`))),
    fitsAddress: () => false,
    address: undefined,
  };
}

function parts(text: string): { host: string; bits: string | undefined; port: number | undefined } {
  const isBareSix = !text.startsWith('[') && text.split(':').length > 2;
  const match = isBareSix
    ? /^([^/]+)(?:\/(\d+))?$/.exec(text)
    : /^(\[[^\]/]+\]|[^:/[\]]+)(?:\/(\d+))?(?::(\d{1,5}))?$/.exec(text);
  const [, host, bits, port] = match ?? [];
  if (host === undefined || Number(port ?? 1) > 65_535 || Number(port ?? 1) < 1) throw bad(text);
  return { host: host.toLowerCase(), bits, port: port === undefined ? undefined : Number(port) };
}

function ranged(text: string, range: string): AddressRanges {
  try {
    return new AddressRanges([range.replace(/[[\]]/g, '')]);
  } catch (cause) {
    throw new Error(bad(text).message, { cause });
  }
}

/** `127.1`, `2130706433`, `0x7f.1`: an address that is not written as one would never match. */
function isNumeric(host: string): boolean {
  return /^(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+))*$/.test(host) && isIP(host) === 0;
}

function bad(text: string): Error {
  return new Error(
    `${JSON.stringify(text)} must be a name, .suffix, an address or a range like 10.0.0.0/8, with :port if wanted`,
  );
}
