import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { CraftedEntry } from './archive.js';

/** A good tar.gz archive with bits turned, parts missing, or bytes added, inside or outside its compression; and noise. */
export function damagedArchives(good: Buffer): fc.Arbitrary<Buffer> {
  const plain = gunzipSync(good);
  const place = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  return fc.oneof(
    fc.tuple(place, fc.nat(7)).map(([at, bit]) => flipped(good, at, bit)),
    fc
      .array(fc.tuple(place, fc.nat(7)), { minLength: 1, maxLength: 5 })
      .map((flips) => gzipSync(flips.reduce<Uint8Array>((bytes, [at, bit]) => flipped(bytes, at, bit), plain))),
    place.map((at) => good.subarray(0, at * good.length)),
    place.map((at) => gzipSync(plain.subarray(0, at * plain.length))),
    fc.uint8Array({ minLength: 1, maxLength: 600 }).map((bytes) => Buffer.concat([good, bytes])),
    fc.uint8Array({ maxLength: 2000 }).map((bytes) => Buffer.from(bytes)),
    fc.uint8Array({ maxLength: 2000 }).map((bytes) => gzipSync(bytes)),
    fc
      .tuple(place, place)
      .map(([from, to]) =>
        gzipSync(Buffer.concat([plain.subarray(0, from * plain.length), plain.subarray(to * plain.length)])),
      ),
  );
}

const NAMES = fc.array(
  fc.oneof(
    fc.constantFrom('..', '.', '', '.git', '.GIT', 'git~1', 'a', '\\..', 'C:', '~', '\u202e', 'a'.repeat(300)),
    fc.string(),
  ),
  { minLength: 1, maxLength: 6 },
);

const KINDS = fc.constantFrom<CraftedEntry['type']>('file', 'symlink', 'link', 'fifo', 'block-device', 'directory');

/** Entries whose names lead elsewhere, or that are no files. */
export const EVIL_ENTRIES: fc.Arbitrary<CraftedEntry[]> = fc
  .array(fc.tuple(NAMES, KINDS), { minLength: 1, maxLength: 4 })
  .map((entries) =>
    entries.map(([parts, type]) => ({ name: parts.join('/') || 'x', ...(type && { type }), linkname: '/etc/passwd' })),
  );

function flipped(bytes: Uint8Array, at: number, bit: number): Buffer<ArrayBuffer> {
  const copy = Buffer.alloc(bytes.length, bytes);
  const index = Math.floor(at * copy.length);
  copy[index] = (copy[index] ?? 0) ^ (1 << bit);
  return copy;
}
