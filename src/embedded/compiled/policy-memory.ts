import { type Address, PAGE_BYTES, type PolicyExports } from './abi.js';

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

  /**
   * The bytes as they are now; asked for again after each call of the module, which may grow the
   * memory.
   */
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

  /**
   * Writes a text in UTF-8, where there is room for three bytes for each unit of it; returns the
   * count of bytes.
   */
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

/**
 * How OPA lays values out in memory (`value.h`), as far as needed to follow a path. All fields are
 * words of four bytes.
 */
const TYPE = { string: 4, object: 6, internedString: 8 } as const;
const STRING = { length: 4, text: 8 } as const;
const OBJECT = { buckets: 4, count: 8 } as const;
const ELEMENT = { key: 0, value: 4, next: 8 } as const;

/**
 * The value of a member of an object; undefined if the value is no object, or has no such member.
 */
export function memberAt(memory: PolicyMemory, object: Address, name: string): Address | undefined {
  if (memory.bytes[object >>> 0] !== TYPE.object) return undefined;
  const wanted = Buffer.from(name);
  const buckets = memory.word(object + OBJECT.buckets);
  const bucket = hashOf(wanted) % memory.word(object + OBJECT.count);
  for (let at = memory.word(buckets + 4 * bucket); at !== 0; at = memory.word(at + ELEMENT.next)) {
    if (isString(memory, memory.word(at + ELEMENT.key), wanted)) return memory.word(at + ELEMENT.value);
  }
  return undefined;
}

function isString(memory: PolicyMemory, value: Address, wanted: Buffer): boolean {
  const type = memory.bytes[value];
  if (type !== TYPE.string && type !== TYPE.internedString) return false;
  if (memory.word(value + STRING.length) !== wanted.length) return false;
  const start = memory.word(value + STRING.text);
  return memory.bytes.compare(wanted, 0, wanted.length, start, start + wanted.length) === 0;
}

/** FNV-1a, 32 bits: OPA's hash of a string. */
function hashOf(bytes: Uint8Array): number {
  let hash = 0x811c9dc5;
  for (const byte of bytes) hash = Math.imul(hash, 0x01000193) ^ byte;
  return hash >>> 0;
}

/**
 * Five lists of free blocks, by size: a flag, a size, and two ends of three words each (`malloc.c`
 * of OPA).
 */
const STASH_BYTES = 5 * 32;
/**
 * Words of a list before the link to its first block: flag and size (both of the list of blocks of
 * 4 bytes), size and previous of the end.
 */
const BEFORE_FIRST = [1, 4, 0, 0];
/** Bytes of a block before its data. */
const BLOCK_HEADER = 12;

/**
 * Where the module keeps the free blocks among the documents while evaluations go on; undefined if
 * they are not found. To be asked with an empty heap that ends at `base`.
 */
export function findStash(memory: PolicyMemory, exports: PolicyExports, base: Address): Address | undefined {
  const block = exports.opa_malloc(4);
  exports.opa_free(block);
  exports.opa_heap_blocks_stash();
  const words = new Uint32Array(memory.memory.buffer, 0, Math.floor(base / 4));
  const found: Address[] = [];
  for (let at = words.indexOf(block - BLOCK_HEADER); at !== -1; at = words.indexOf(block - BLOCK_HEADER, at + 1)) {
    const start = at - BEFORE_FIRST.length;
    if (BEFORE_FIRST.every((word, index) => words[start + index] === word)) found.push(4 * start);
  }
  exports.opa_heap_stash_clear();
  exports.opa_heap_ptr_set(base);
  return found.length === 1 ? found[0] : undefined;
}

/** A copy of the lists at {@link findStash}. */
export function copyOfStash(memory: PolicyMemory, stash: Address): Buffer {
  return Buffer.from(memory.bytes.subarray(stash, stash + STASH_BYTES));
}

/**
 * Makes sure that so many bytes can be allocated beyond the end of the heap, if the limit of the
 * memory permits. By itself the module grows page by page, which takes seconds for a large
 * document. Empties the lists of free blocks.
 */
export function reserve(
  memory: PolicyMemory,
  exports: PolicyExports,
  { heap, bytes, mostPages }: { readonly heap: Address; readonly bytes: number; readonly mostPages: number },
): void {
  const has = memory.bytes.length;
  const room = has - heap;
  if (room > bytes) return;
  // One allocation that does not fit: the module then grows by its size.
  const size = Math.max(bytes, room);
  if (has / PAGE_BYTES + Math.floor((size + BLOCK_HEADER) / PAGE_BYTES) + 1 > mostPages) return;
  exports.opa_heap_ptr_set(heap);
  exports.opa_malloc(size);
  exports.opa_heap_ptr_set(heap);
}
