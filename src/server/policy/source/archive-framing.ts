import { Transform, type TransformCallback } from 'node:stream';

const BLOCK_BYTES = 512;
/** Offsets of the size field in a header block (POSIX ustar). */
const SIZE_START = 124;
const SIZE_END = 136;

/**
 * Passes on the bytes of a tar archive and checks its framing: an end mark (readers accept an
 * archive that was cut between two entries), only zeros after it, and at most `limitBytes` in
 * total, which stops decompression bombs. Fails with an `Error` that describes the problem.
 */
export class ArchiveFraming extends Transform {
  readonly #limitBytes: number;
  readonly #header = Buffer.alloc(BLOCK_BYTES);
  #filled = 0;
  #bytes = 0;
  /** Bytes of content and padding until the next header. */
  #skip = 0;
  #ended = false;

  constructor(limitBytes: number) {
    super();
    this.#limitBytes = limitBytes;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    try {
      this.#walk(chunk);
    } catch (error) {
      done(error as Error); // ours, thrown below
      return;
    }
    done(null, chunk);
  }

  override _flush(done: TransformCallback): void {
    done(this.#ended ? null : new Error('the archive has no end mark: it is truncated'));
  }

  #walk(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#limitBytes) {
      throw new Error(
        `the archive unpacks to more than the ${this.#limitBytes} bytes of SYNC_POLICY_BUNDLE_LIMIT_UNPACKED_BYTES`,
      );
    }
    for (let at = 0; at < chunk.length; ) {
      if (this.#ended) {
        if (!isZero(chunk.subarray(at))) throw new Error('the archive has data after its end mark');
        return;
      }
      if (this.#skip > 0) {
        const passed = Math.min(this.#skip, chunk.length - at);
        this.#skip -= passed;
        at += passed;
        continue;
      }
      const copied = chunk.copy(this.#header, this.#filled, at, at + BLOCK_BYTES - this.#filled);
      this.#filled += copied;
      at += copied;
      if (this.#filled === BLOCK_BYTES) this.#headerRead();
    }
  }

  #headerRead(): void {
    this.#filled = 0;
    if (isZero(this.#header)) this.#ended = true;
    else this.#skip = Math.ceil(contentBytes(this.#header) / BLOCK_BYTES) * BLOCK_BYTES;
  }
}

function isZero(bytes: Uint8Array): boolean {
  return bytes.every((byte) => byte === 0);
}

/** Reads octal digits; the binary form is for sizes of 8 GiB and more, which no limit allows. */
function contentBytes(header: Buffer): number {
  const text = header.toString('latin1', SIZE_START, SIZE_END).replace(/\0.*$/s, '').trim();
  if (!/^[0-7]*$/.test(text)) throw new Error('the archive has a header with an invalid size');
  return text === '' ? 0 : Number.parseInt(text, 8);
}
