import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

/** Bytes that are asked of the file at a time. */
const CHUNK_BYTES = 64 * 1024;

/** Reads a file from its beginning to its end, in parts that the caller knows, and hashes what it has read. */
export class FileReader {
  readonly #file: FileHandle;
  readonly #hash = createHash('sha256');
  /** Read from the file, and not yet taken. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** The next `size` bytes, in pieces. Throws when the file ends before. */
  async *take(size: number): AsyncGenerator<Uint8Array> {
    for (let open = size; open > 0; ) {
      if (this.#rest.length === 0) await this.#fill();
      const piece = this.#rest.subarray(0, open);
      open -= piece.length;
      yield this.#consumed(piece);
    }
  }

  /** The next `size` bytes as text. */
  async text(size: number): Promise<string> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.take(size)) pieces.push(piece);
    return utf8(Buffer.concat(pieces));
  }

  /** The bytes up to the next line feed, without it, as text. Throws when there is none within `limit` bytes. */
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

  /** Takes exactly this text; throws when something else comes. */
  async expect(text: string): Promise<void> {
    const found = await this.text(Buffer.byteLength(text));
    if (found !== text) throw new Error(`expected ${JSON.stringify(text)}, found ${JSON.stringify(found)}`);
  }

  /** Hex SHA-256 of all that was taken so far. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }

  /** Throws when the file goes on. */
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

  /** Called when all that was read is taken. */
  async #read(): Promise<number> {
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    const { bytesRead } = await this.#file.read(buffer, 0, CHUNK_BYTES);
    this.#rest = buffer.subarray(0, bytesRead);
    return bytesRead;
  }
}

/** Text of bytes that must be UTF-8. */
export function utf8(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
}
