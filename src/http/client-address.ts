import type { IncomingMessage } from 'node:http';
import { AddressRanges, canonicalAddress } from '../lib/address.js';
import { SyncError } from '../lib/errors.js';

/** The address of a connection that has already ended. */
const UNKNOWN = '?';

/** Finds the address of a caller behind the proxies that the operator trusts. */
export class ClientAddresses {
  readonly #trusted: AddressRanges;
  readonly #hasProxies: boolean;
  /** By connection, so that a caller which keeps one has its address computed once. */
  readonly #ofSockets = new WeakMap<object, string>();

  /** `proxies` (SYNC_TRUSTED_PROXIES): addresses and networks. Throws `config_invalid` for other texts. */
  constructor(proxies: readonly string[] = []) {
    for (const proxy of proxies) {
      try {
        new AddressRanges([proxy]);
      } catch (cause) {
        const text = `SYNC_TRUSTED_PROXIES: ${JSON.stringify(proxy)} is no address and no network like 10.0.0.0/8`;
        throw new SyncError('config_invalid', text, { cause });
      }
    }
    this.#trusted = new AddressRanges(proxies);
    this.#hasProxies = proxies.length > 0;
  }

  /** Whether a connection comes from one of the proxies. */
  isFromProxy(socket: IncomingMessage['socket']): boolean {
    return this.#hasProxies && this.#isProxy(this.#ofSocket(socket));
  }

  #isProxy(address: string): boolean {
    return address !== UNKNOWN && this.#trusted.has(address);
  }

  #ofSocket(socket: IncomingMessage['socket']): string {
    let address = this.#ofSockets.get(socket);
    if (address === undefined) {
      address = canonicalAddress(socket.remoteAddress ?? '') ?? UNKNOWN;
      if (address !== UNKNOWN) this.#ofSockets.set(socket, address);
    }
    return address;
  }

  /**
   * The last address that one of the proxies has seen: the rightmost of `X-Forwarded-For` that is not a proxy. The caller may have
   * written the others.
   */
  of({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>): string {
    let address = this.#ofSocket(socket);
    if (!this.#hasProxies || !this.#isProxy(address)) return address;
    const forwarded = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
    while (this.#isProxy(address)) {
      const next = addressIn(forwarded.pop() ?? '');
      if (next === undefined) break;
      address = next;
    }
    return address;
  }
}

/** The address in an item, which some proxies write with a port; undefined if there is none. */
function addressIn(item: string): string | undefined {
  const text = item.trim();
  return canonicalAddress(text) ?? canonicalAddress(text.replace(/:\d+$/, ''));
}
