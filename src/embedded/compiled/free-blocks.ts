import { type Address, PAGE_BYTES, type PolicyExports } from './abi.js';
import type { PolicyMemory } from './policy-memory.js';

/** Five lists of free blocks, by size: a flag, a size, and two ends of three words each (`malloc.c` of OPA). */
const STASH_BYTES = 5 * 32;
/** Words of a list before the link to its first block: flag and size (both of the list of blocks of 4 bytes), size and previous of the end. */
const BEFORE_FIRST = [1, 4, 0, 0];
/** Bytes of a block before its data. */
const BLOCK_HEADER = 12;

/**
 * Where the module keeps the free blocks among the documents while evaluations go on; undefined if they are not found. To be asked
 * with an empty heap that ends at `base`.
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
 * Makes sure that so many bytes can be allocated beyond the end of the heap, if the limit of the memory permits. By itself the
 * module grows page by page, which takes seconds for a large document. Empties the lists of free blocks.
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
