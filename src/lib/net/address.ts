import { BlockList, isIP } from 'node:net';

/**
 * The canonical form of an IP address: an embedded IPv4 address (`::ffff:127.0.0.1`, `::127.0.0.1`,
 * NAT64) becomes plain IPv4, IPv6 is compressed, zone and brackets are removed. Returns undefined
 * for any other text.
 */
export function canonicalAddress(text: string): string | undefined {
  const [bare = ''] = text.replace(/^\[(.*)\]$/, '$1').split('%', 1);
  const family = isIP(bare);
  if (family !== 6) return family === 4 ? bare : undefined;
  const six = new URL(`http://[${bare}]/`).hostname.slice(1, -1);
  const [, high, low] = /^(?:::(?:ffff:)?|64:ff9b::)([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(six) ?? [];
  if (high === undefined || low === undefined) return six;
  const bytes = [high, low].flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
  return bytes.join('.');
}

/**
 * Whose share a canonical address uses: of IPv6 the network of 64 bits, as one host may take each
 * address of it. Any other text is returned as it is.
 */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address;
  const [before = [], after] = address.split('::').map((part) => (part === '' ? [] : part.split(':')));
  const missing = after === undefined ? 0 : 8 - before.length - after.length;
  const groups = [...before, ...Array<string>(missing).fill('0'), ...(after ?? [])];
  return `${groups.slice(0, 4).join(':')}::/64`;
}

/** Ranges of addresses; look-ups take canonical addresses. */
export class AddressRanges {
  readonly #list = new BlockList();

  /** `ranges`: addresses, or `network/bits`. Throws for any other text. */
  constructor(ranges: readonly string[]) {
    for (const range of ranges) this.#add(range);
  }

  has(address: string): boolean {
    return this.#list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }

  #add(range: string): void {
    const [network = '', bits] = range.split('/');
    const address = canonicalAddress(network);
    if (address === undefined) throw new Error('is not an address');
    // An IPv4 network that is written as IPv6 counts its bits from there.
    const isEmbedded = isIP(address) === 4 && network.includes(':');
    const longest = isIP(address) === 6 ? 128 : 32;
    const length = bits === undefined ? longest : Number(bits) - (isEmbedded ? 96 : 0);
    if (!Number.isInteger(length) || length < 0 || length > longest || !/^\d*$/.test(bits ?? '')) {
      throw new Error('has a prefix length that is none');
    }
    this.#list.addSubnet(address, length, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
}
