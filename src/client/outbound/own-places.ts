import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { canonicalAddress } from '../../lib/net/address.js';
import type { Endpoint } from '../../lib/net/tls.js';
import { isLoopbackAddress } from './address.js';

/** Looks up all addresses of a name. */
export type LookUp = (host: string) => Promise<readonly { readonly address: string; readonly family: number }[]>;

/** Dependencies of {@link OwnPlaces}. */
export interface OwnPlacesDeps {
  readonly lookUp: LookUp;
  /** Addresses of this machine. Default: those of its network interfaces. */
  readonly localAddresses?: () => readonly string[];
}

interface Place extends Endpoint {
  readonly what: string;
  /** All addresses that its name has resolved to. */
  readonly seen: Set<string>;
}

/**
 * The places that belong to this client: its engine, its API, its bundle service. If one is on this
 * machine, its port counts as ours at all addresses of this machine: it is unknown which of them it
 * uses.
 */
export class OwnPlaces {
  readonly #deps: OwnPlacesDeps;
  readonly #places: Place[] = [];

  constructor(deps: OwnPlacesDeps) {
    this.#deps = deps;
  }

  /** Adds a place. `what`: its name for messages. */
  add(what: string, { host, port }: Endpoint): void {
    this.#places.push({ what, host: canonicalAddress(host) ?? host.toLowerCase(), port, seen: new Set() });
  }

  /** Returns which of our places has this name and port; undefined: none. */
  named({ host, port }: Endpoint): string | undefined {
    return this.#places.find((place) => place.port === port && place.host === host)?.what;
  }

  /** Whether one of our places has this port. */
  hasPort(port: number): boolean {
    return this.#places.some((place) => place.port === port);
  }

  /**
   * Returns which of our places is at a canonical address; undefined: none. Rejects if that is
   * unknown.
   */
  async at(address: string, port: number): Promise<string | undefined> {
    for (const place of this.#places) {
      if (place.port !== port) continue;
      const addresses = await this.#addressesOf(place);
      if (addresses.includes(address)) return place.what;
      if (this.#isLocal(address) && addresses.some((own) => this.#isLocal(own))) return place.what;
    }
    return undefined;
  }

  async #addressesOf({ host, seen }: Place): Promise<readonly string[]> {
    if (isIP(host) !== 0) return [host];
    if (host === 'localhost' || host.endsWith('.localhost')) return ['127.0.0.1'];
    try {
      for (const { address } of await this.#deps.lookUp(host)) seen.add(canonicalAddress(address) ?? address);
    } catch (error) {
      // Its earlier addresses still count. Without any, the places cannot be distinguished.
      if (seen.size === 0) throw error;
    }
    return [...seen];
  }

  #isLocal(address: string): boolean {
    return isLoopbackAddress(address) || this.#local().includes(address);
  }

  #local(): readonly string[] {
    if (this.#deps.localAddresses !== undefined) return this.#deps.localAddresses();
    const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
    return all.map(({ address }) => canonicalAddress(address) ?? address);
  }
}
