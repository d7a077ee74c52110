import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

/** Bytes per read of the file. */
const CHUNK_BYTES = 64 * 1024;

/** Reads a file sequentially, in parts of known size, and hashes the bytes. */
export class FileReader {
  readonly #file: FileHandle;
  readonly #hash = createHash('sha256');
  /** Bytes that were read and not yet consumed. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** Yields the next `size` bytes, in pieces. Throws if the file ends earlier. */
  async *take(size: number): AsyncGenerator<Uint8Array> {
    for (let open = size; open > 0; ) {
      if (this.#rest.length === 0) await this.#fill();
      const piece = this.#rest.subarray(0, open);
      open -= piece.length;
      yield this.#consumed(piece);
    }
  }

  /** Returns the next `size` bytes as text. */
  async text(size: number): Promise<string> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.take(size)) pieces.push(piece);
    return utf8(Buffer.concat(pieces));
  }

  /**
   * Returns the bytes up to the next line feed, without it, as text. Throws if there is none within
   * `limit` bytes.
   */
  async line(limit: number): Promise<string> {
    const pieces: Uint8Array[] = [];
    for (let length = 0; length <= limit; ) {
      if (this.#rest.length === 0) await this.#fill();
      const end = this.#rest.indexOf(0x0a);
      const piece = this.#consumed(end === -1 ? this.#rest : this.#rest.subarray(0, end + 1));
      pieces.push(piece);
      length += piece.length;
      if (end !== -1) return utf8(Buffer.concat(pieces).subarray(0, -1));
    }
    throw new Error(`a line is longer than ${limit} bytes`);
  }

  /** Consumes exactly this text; throws for any other. */
  async expect(text: string): Promise<void> {
    const found = await this.text(Buffer.byteLength(text));
    if (found !== text) throw new Error(`expected ${JSON.stringify(text)}, found ${JSON.stringify(found)}`);
  }

  /** Returns the hex SHA-256 of all consumed bytes. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }

  /** Throws if the file continues. */
  async expectEnd(): Promise<void> {
    if (this.#rest.length === 0 && (await this.#read()) === 0) return;
    throw new Error('something comes after its end');
  }

  #consumed(piece: Buffer): Buffer {
    this.#rest = this.#rest.subarray(piece.length);
    this.#hash.update(piece);
    return piece;
  }

  async #fill(): Promise<void> {
    if ((await this.#read()) === 0) throw new Error('it is cut short');
  }

  /** Call it when all bytes are consumed. */
  async #read(): Promise<number> {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    const { bytesRead } = await this.#file.read(buffer, 0, CHUNK_BYTES);
    this.#rest = buffer.subarray(0, bytesRead);
    return bytesRead;
  }
}

/** Decodes bytes that must be UTF-8. */
export function utf8(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
}
