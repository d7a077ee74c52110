import { type FileHandle, open } from 'node:fs/promises';
import type { Body } from '../../wire/json-node.js';

/**
 * A document that is still read from its source. Whoever reads along gets its bytes as they come, all but its end: until
 * {@link ArrivingBody.release} what was given is no whole JSON value, so nobody can take it for one.
 */
export interface ArrivingBody {
  /** The whole, once all of it is there and was found to be JSON. */
  readonly body: Body | undefined;
  /**
   * The bytes from the first on; throws when it turns out that the document does not come, or nobody wants it, and when the signal
   * aborts: by that whoever reads along says that this is over.
   */
  pieces(signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** From now on the end is given too, once it is there. */
  release(): void;
}

/** Read at once, and written: fewer, larger pieces cost less. */
export const PIECE_BYTES = 256 * 1024;

/** How an arrival ends: with the body, or with the reason why there is none. */
type End = { readonly body: Body } | { readonly reason: unknown };

/** A document on its way into a file, for whoever reads along. The one who writes the file says how far that may go. */
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

  /** So many bytes are in the file, and are no whole JSON value. */
  reached(openBytes: number): void {
    this.#openBytes = openBytes;
    this.#tell();
  }

  /** All of it is in the file. */
  arrived(body: Body): void {
    this.#end ??= { body };
    this.#tell();
  }

  /** It will not come, or is no longer wanted. */
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

  /** Waits until there is more than `at`; `at` where that is all. */
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

/** Throws where the file is shorter than it has to be: a document that was cut must not look whole. */
async function readPiece(file: FileHandle, at: number, end: number): Promise<Uint8Array> {
  const piece = Buffer.allocUnsafeSlow(Math.min(PIECE_BYTES, end - at));
  const { bytesRead } = await file.read(piece, 0, piece.length, at);
  if (bytesRead === 0) throw new Error(`the spool file has ${at} bytes where ${end} are due`);
  return piece.subarray(0, bytesRead);
}
