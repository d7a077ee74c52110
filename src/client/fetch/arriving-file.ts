import { type FileHandle, open } from 'node:fs/promises';
import type { Body } from '../../wire/json-node.js';

/**
 * A document that is still being read from its source. Readers receive its bytes as they arrive,
 * except the end: until {@link ArrivingBody.release}, the bytes are not a complete JSON value and
 * cannot be mistaken for one.
 */
export interface ArrivingBody {
  /** The whole document, once it has arrived and is valid JSON. */
  readonly body: Body | undefined;
  /**
   * Yields the bytes from the start; throws if the document fails to arrive or is discarded, and
   * when the signal of the reader aborts.
   */
  pieces(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Releases the end to readers, once it has arrived. */
  release(): void;
}

/** Size of reads and writes: fewer, larger pieces cost less. */
export const PIECE_BYTES = 256 * 1024;

/** The end of an arrival: the body, or the reason why there is none. */
type End = { readonly body: Body } | { readonly reason: unknown };

/**
 * A document that is being written to a file, for concurrent readers. The writer reports how far
 * they may read.
 */
export class ArrivingFile implements ArrivingBody {
  readonly #path: string;
  #openBytes = 0;
  #end: End | undefined;
  #isReleased = false;
  #wake: () => void = () => undefined;
  #changed = this.#nextChange();

  constructor(path: string) {
    this.#path = path;
  }

  get body(): Body | undefined {
    return this.#end !== undefined && 'body' in this.#end ? this.#end.body : undefined;
  }

  /** Called when the file has this many bytes that are not a complete JSON value. */
  reached(openBytes: number): void {
    this.#openBytes = openBytes;
    this.#tell();
  }

  /** Called when the whole document is in the file. */
  arrived(body: Body): void {
    this.#end ??= { body };
    this.#tell();
  }

  /** Called when the document fails to arrive, or is no longer needed. */
  gone(reason: unknown): void {
    if (this.#end === undefined || !this.#isReleased) this.#end = { reason };
    this.#tell();
  }

  release(): void {
    this.#isReleased = true;
    this.#tell();
  }

  async *pieces(signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const file = await open(this.#path, 'r');
    const onAbort = (): void => this.#tell();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      for (let at = 0; ; ) {
        const reach = await this.#reach(at, signal);
        if (reach === at) return;
        const piece = await readPiece(file, at, reach);
        at += piece.length;
        yield piece;
      }
    } finally {
      signal.removeEventListener('abort', onAbort);
      await file.close();
    }
  }

  /** Waits for bytes after `at`; returns `at` at the end. */
  async #reach(at: number, signal: AbortSignal): Promise<number> {
    for (;;) {
      signal.throwIfAborted();
      const end = this.#end;
      if (end !== undefined && 'reason' in end) throw end.reason;
      if (end !== undefined && this.#isReleased) return end.body.sizeBytes;
      if (this.#openBytes > at) return this.#openBytes;
      await this.#changed;
    }
  }

  #nextChange(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #tell(): void {
    const wake = this.#wake;
    this.#changed = this.#nextChange();
    wake();
  }
}

/** Throws if the file is too short: a truncated document must not look complete. */
async function readPiece(file: FileHandle, at: number, end: number): Promise<Uint8Array> {
  const piece = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, end - at));
  const { bytesRead } = await file.read(piece, 0, piece.length, at);
  if (bytesRead === 0) throw new Error(`the spool file has ${at} bytes where ${end} are due`);
  return piece.subarray(0, bytesRead);
}
