import type { Address } from './abi.js';

/** Longest text that is written character by character, which is faster than a call for so few. */
const SHORT_CHARS = 128;

/** The memory of a compiled policy, read and written as text. */
export class PolicyMemory {
  readonly memory: WebAssembly.Memory;
  #bytes: Buffer;

  constructor(pages: { readonly initial: number; readonly maximum: number }) {
    this.memory = new WebAssembly.Memory(pages);
    this.#bytes = Buffer.from(this.memory.buffer);
  }

  /** The bytes as they are now; asked for again after each call of the module, which may grow the memory. */
  get bytes(): Buffer {
    if (this.#bytes.length === 0) this.#bytes = Buffer.from(this.memory.buffer);
    return this.#bytes;
  }

  /** The text up to the zero byte that ends it. */
  textAt(at: Address): string {
    const { bytes } = this;
    const start = at >>> 0;
    return bytes.toString('utf8', start, bytes.indexOf(0, start));
  }

  /** Writes a text in UTF-8, where there is room for three bytes for each unit of it; returns the count of bytes. */
  write(text: string, at: Address): number {
    const { bytes } = this;
    const { length } = text;
    if (length > SHORT_CHARS) return bytes.write(text, at, 'utf8');
    for (let index = 0; index < length; index++) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return bytes.write(text, at, 'utf8');
      bytes[at + index] = code;
    }
    return length;
  }

  /** The 32 bit number at an address. */
  word(at: Address): number {
    return this.bytes.readUInt32LE(at >>> 0);
  }
}
