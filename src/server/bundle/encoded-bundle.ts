import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

/** Smaller responses are not worth compressing. */
const GZIP_FROM_BYTES = 1_024;

const compress = promisify(gzip);

/** A bundle as it is sent. */
export class EncodedBundle {
  /** Quoted entity tag: the same bytes have the same one, on every instance. */
  readonly etag: string;
  readonly json: Buffer;
  /** Commit that it leads to. */
  readonly hash: string;
  readonly #onGrown: (bundle: EncodedBundle) => void;
  #gzip: Promise<Buffer> | undefined;
  #size: number;

  /** `onGrown` is called when its size has changed. */
  constructor(json: Buffer, hash: string, onGrown: (bundle: EncodedBundle) => void) {
    this.etag = `"${createHash('sha256').update(json).digest('hex').slice(0, 32)}"`;
    this.json = json;
    this.hash = hash;
    this.#size = json.length;
    this.#onGrown = onGrown;
  }

  /** Bytes that it holds now. */
  get size(): number {
    return this.#size;
  }

  /** The compressed form, made when the first caller asks for it; undefined for a small bundle. */
  async gzip(): Promise<Buffer | undefined> {
    if (this.json.length < GZIP_FROM_BYTES) return undefined;
    this.#gzip ??= this.#compress();
    return await this.#gzip;
  }

  async #compress(): Promise<Buffer> {
    try {
      const bytes = await compress(this.json);
      this.#size = this.json.length + bytes.length;
      this.#onGrown(this);
      return bytes;
    } catch (error) {
      this.#gzip = undefined; // the next caller tries again
      throw error;
    }
  }
}
