/** Pieces up to here are copied: a `Buffer` of its own takes some 400 bytes beside them. */
const SMALL_BYTES = 1024;
const FIRST_BLOCK_BYTES = 4 * 1024;
const MOST_BLOCK_BYTES = 64 * 1024;

/**
 * Bytes that arrive in pieces and are kept until they are whole. Whoever sends them decides how
 * small the pieces are: a body of 3 MB, each byte in a chunk of its own, takes little more memory
 * than its bytes.
 */
export class Pieces {
  #list: Uint8Array[] = [];
  #bytes = 0;
  /** What is copied into; the first {@link #used} bytes are. */
  #block = Buffer.alloc(0);
  #used = 0;

  /** Bytes that have arrived. */
  get bytes(): number {
    return this.#bytes;
  }

  push(piece: Uint8Array): void {
    this.#bytes += piece.length;
    if (piece.length > SMALL_BYTES) {
      this.#seal();
      this.#list.push(piece);
      return;
    }
    if (piece.length > this.#block.length - this.#used) this.#nextBlock();
    this.#block.set(piece, this.#used);
    this.#used += piece.length;
  }

  /** What has arrived, in few parts; it begins anew. */
  take(): Uint8Array[] {
    this.#seal();
    const list = this.#list;
    this.#list = [];
    this.#bytes = 0;
    return list;
  }

  /** What has arrived, as a copy in one piece; it begins anew. */
  join(): Buffer {
    const bytes = this.#bytes;
    return Buffer.concat(this.take(), bytes);
  }

  /** The rest of the block is for the next pieces. */
  #seal(): void {
    if (this.#used === 0) return;
    this.#list.push(this.#block.subarray(0, this.#used));
    this.#block = this.#block.subarray(this.#used);
    this.#used = 0;
  }

  #nextBlock(): void {
    this.#seal();
    // As large as what has arrived: a short body takes a short block.
    this.#block = Buffer.allocUnsafeSlow(Math.min(Math.max(this.#bytes, FIRST_BLOCK_BYTES), MOST_BLOCK_BYTES));
  }
}
