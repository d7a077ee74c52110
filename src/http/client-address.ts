import type { IncomingMessage } from 'node:http';
import { AddressRanges, canonicalAddress } from '../lib/address.js';
import { SyncError } from '../lib/errors.js';

/** Finds the address that a request comes from, through the proxies that the operator trusts. */
export class ClientAddresses {
  readonly #trusted: AddressRanges;

  /** `proxies` (SYNC_TRUSTED_PROXIES): addresses and networks. Throws `config_invalid` for what is neither. */
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
  }

  /** Whether an address is one of the proxies. */
  isProxy(address: string): boolean {
    return canonicalAddress(address) === address && this.#trusted.has(address);
  }

  /**
   * The last address that a proxy of ours has seen: the rightmost of `X-Forwarded-For` that is none of the proxies. What stands
   * left of it anybody may have written.
   */
  of({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>): string {
    let address = canonicalAddress(socket.remoteAddress ?? '') ?? '?';
    if (!this.isProxy(address)) return address;
    const forwarded = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
    while (this.isProxy(address)) {
      const next = addressIn(forwarded.pop() ?? '');
      if (next === undefined) break;
      address = next;
    }
    return address;
  }
}

/** The address in an item, which some proxies write with its port; undefined where there is none. */
function addressIn(item: string): string | undefined {
  const text = item.trim();
  return canonicalAddress(text) ?? canonicalAddress(text.replace(/:\d+$/, ''));
}
