import { lookup } from 'node:dns/promises';
import type { LookupFunction } from 'node:net';
import { SyncError } from '../../lib/errors.js';
import { canonicalAddress } from '../../lib/net/address.js';
import { type PlaceRule, placeRule } from '../../lib/net/place-rules.js';
import { endpointOf } from '../../lib/net/proxy.js';
import type { Endpoint } from '../../lib/net/tls.js';
import { isLinkLocal } from './address.js';
import { type LookUp, OwnPlaces, type OwnPlacesDeps } from './own-places.js';

/** The settings that restrict destinations. */
export interface GateOptions {
  /** SYNC_FETCH_ALLOW; empty: everything that is not denied. */
  readonly fetchAllow: readonly string[];
  /** SYNC_FETCH_DENY. */
  readonly fetchDeny: readonly string[];
  /** SYNC_FETCH_METHODS. */
  readonly fetchMethods: readonly string[];
}

/** An address that the gate has checked. */
export interface CheckedAddress {
  readonly address: string;
  readonly family: number;
}

/**
 * Checks all requests to addresses that a peer names: data sources, callbacks, redirects of
 * `GET /data/config`. Looks up names, checks each address, and lets connections use only these,
 * without a second lookup. Refuses with `address_refused`; retryable if it refuses the address of a
 * name, since names change.
 */
export class OutboundGate {
  readonly #allow: readonly PlaceRule[];
  readonly #deny: readonly PlaceRule[];
  readonly #methods: readonly string[];
  readonly #lookUp: LookUp;
  readonly #own: OwnPlaces;

  constructor(options: Partial<GateOptions> = {}, deps: Partial<OwnPlacesDeps> = {}) {
    this.#allow = (options.fetchAllow ?? []).map(placeRule);
    this.#deny = (options.fetchDeny ?? []).map(placeRule);
    this.#methods = options.fetchMethods ?? ['GET', 'POST'];
    this.#lookUp = deps.lookUp ?? ((host) => lookup(host, { all: true }));
    this.#own = new OwnPlaces({ ...deps, lookUp: this.#lookUp });
  }

  /** Refuses `place` from now on, regardless of the settings. `what`: its name for messages. */
  protect(what: string, place: Endpoint): void {
    this.#own.add(what, place);
  }

  /** Returns why a method is not allowed; undefined if it is. */
  methodProblem(method: string): string | undefined {
    if (this.#methods.includes(method)) return undefined;
    return `${method} is not sent: SYNC_FETCH_METHODS has only ${this.#methods.join(', ')}`;
  }

  /**
   * Returns the allowed addresses of `target`. Connect only to these: another lookup may return
   * others.
   */
  async addresses(target: Endpoint): Promise<readonly CheckedAddress[]> {
    const place = normal(target);
    this.#checkName(place);
    const literal = canonicalAddress(place.host);
    if (literal !== undefined) {
      await this.#checkAddress(place, literal);
      return [{ address: place.host.replace(/^\[(.*)\]$/, '$1'), family: place.host.includes(':') ? 6 : 4 }];
    }
    const checked: CheckedAddress[] = [];
    let refusal: unknown = new SyncError('fetch_failed', `${place.host} has no address`, { retryable: true });
    for (const { address, family } of await this.#lookUp(place.host)) {
      try {
        await this.#checkAddress(place, canonicalAddress(address) ?? address);
        checked.push({ address, family });
      } catch (error) {
        refusal = error;
      }
    }
    if (checked.length === 0) throw refusal;
    return checked;
  }

  /**
   * Rejects if `target` must not be reached through a proxy: by its name, or by its literal
   * address. The proxy looks up names; the gate does so only if the port is one of ours.
   */
  async checkProxied(target: Endpoint): Promise<void> {
    const place = normal(target);
    this.#checkName(place);
    const literal = canonicalAddress(place.host);
    if (literal !== undefined) await this.#checkAddress(place, literal);
    else if (isLinkLocal(place.host)) throw refused(place, LINK_LOCAL);
    else if (this.#allow.length > 0 && !this.#allow.some((rule) => rule.fitsName(place)))
      throw refused(place, NOT_ALLOWED);
    else if (this.#own.hasPort(place.port)) await this.#checkOwn(place);
  }

  /**
   * Rejects if a configured `Host` header names a refused place: one address may serve several
   * names, and the header selects one of them.
   */
  async checkHostHeader(url: URL, host: string | undefined): Promise<void> {
    if (host === undefined) return;
    const named = `${url.protocol}//${host}/`;
    const own = endpointOf(url);
    if (!URL.canParse(named)) throw refused(own, `the header Host is ${JSON.stringify(host)}, which is no place`);
    const { host: name, port } = endpointOf(new URL(named));
    await this.checkProxied({ host: name, port: new URL(named).port === '' ? own.port : port });
  }

  /** Rejects if a name resolves, from here, to one of our places. */
  async #checkOwn(place: Endpoint): Promise<void> {
    const found = await this.#lookUp(place.host).catch(() => []); // only the proxy may know the name
    for (const { address } of found) {
      const own = await this.#own.at(canonicalAddress(address) ?? address, place.port);
      if (own !== undefined) throw refused(place, ownReason(own), address);
    }
  }

  /**
   * `lookup` of a connection to `port`. Node does not call it for literal addresses: check those
   * with {@link addresses}.
   */
  lookup(port: number): LookupFunction {
    return (host, options, callback) => {
      this.addresses({ host, port }).then(
        (found) => answerLookup(found, options.all === true, callback),
        (error: Error) => callback(error, '', 0),
      );
    };
  }

  #checkName(place: Endpoint): void {
    const own = this.#own.named(place);
    if (own !== undefined) throw refused(place, ownReason(own));
    const denied = this.#deny.find((rule) => rule.fitsName(place));
    if (denied !== undefined) throw refused(place, `SYNC_FETCH_DENY has ${denied.text}`);
  }

  async #checkAddress(place: Endpoint, address: string): Promise<void> {
    const { port } = place;
    const own = await this.#own.at(address, port);
    if (own !== undefined) throw refused(place, ownReason(own), address);
    const denied = this.#deny.find((rule) => rule.fitsAddress(address, port));
    if (denied !== undefined) throw refused(place, `SYNC_FETCH_DENY has ${denied.text}`, address);
    const byAddress = this.#allow.filter((rule) => rule.fitsAddress(address, port));
    const isNamed = byAddress.length > 0 || this.#allow.some((rule) => rule.fitsName(place));
    if (this.#allow.length > 0 && !isNamed) throw refused(place, NOT_ALLOWED, address);
    // A rule with a name, or with a wide range, is not meant to allow these.
    if (isLinkLocal(address) && !byAddress.some((rule) => isLinkLocal(rule.address ?? '')))
      throw refused(place, LINK_LOCAL, address);
  }
}

const NOT_ALLOWED = 'SYNC_FETCH_ALLOW does not list it';
const LINK_LOCAL = 'it is a link-local or metadata address, which only SYNC_FETCH_ALLOW opens, by address';

function ownReason(what: string): string {
  return `it is ${what}, to which nothing is sent that an update names (no setting opens it)`;
}

function refused({ host, port }: Endpoint, why: string, address = host): SyncError {
  const isFound = address !== canonicalAddress(host) && address !== host;
  const place = `${host.includes(':') ? `[${host}]` : host}:${port}${isFound ? ` (${address})` : ''}`;
  return new SyncError('address_refused', `nothing is sent to ${place}: ${why}`, { retryable: isFound });
}

/** Normalizes a host: lower case, no brackets, no trailing dot. */
function normal({ host, port }: Endpoint): Endpoint {
  return {
    host: host
      .replace(/^\[(.*)\]$/, '$1')
      .toLowerCase()
      .replace(/(?<=.)\.$/, ''),
    port,
  };
}

/** Calls back with the result of a lookup. */
export function answerLookup(
  found: readonly CheckedAddress[],
  all: boolean,
  callback: Parameters<LookupFunction>[2],
): void {
  const [first] = found;
  if (all)
    callback(
      null,
      found.map(({ address, family }) => ({ address, family })),
    );
  else callback(null, first?.address ?? '', first?.family);
}
