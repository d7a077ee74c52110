import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** Smaller responses are not worth compressing. */
const GZIP_FROM_BYTES = 1_024;

const compress = promisify(gzip);

/** A bundle as it is sent. */
export interface EncodedBundle {
  /** Quoted entity tag: the same bytes have the same one, on every instance. */
  readonly etag: string;
  readonly json: Buffer;
  /** Commit that it leads to. */
  readonly hash: string;
  /** Bytes that it holds now. */
  readonly size: number;
  /** The same, compressed: made once, when the first caller takes it. Undefined for a small one. */
  gzip(): Promise<Buffer | undefined>;
}

/** Makes an {@link EncodedBundle}. `onGrown` is called when its size has changed. */
export function encodedBundle(json: Buffer, hash: string, onGrown: (bundle: EncodedBundle) => void): EncodedBundle {
  let making: Promise<Buffer> | undefined;
  let size = json.length;

  async function make(): Promise<Buffer> {
    try {
      const bytes = await compress(json);
      size = json.length + bytes.length;
      onGrown(bundle);
      return bytes;
    } catch (error) {
      making = undefined; // the next caller tries again
      throw error;
    }
  }

  const bundle: EncodedBundle = {
    etag: `"${createHash('sha256').update(json).digest('hex').slice(0, 32)}"`,
    json,
    hash,
    get size() {
      return size;
    },
    gzip: async () => {
      if (json.length < GZIP_FROM_BYTES) return undefined;
      making ??= make();
      return await making;
    },
  };
  return bundle;
}
