/** Elements of a block, at the start; twice as many at most. */
const BLOCK = 4096;

/**
 * The elements of a list that a patch changes. In blocks, as an element that goes to the front of a
 * million would move all of them, and a patch may have 100,000 such.
 */
export class ListItems {
  readonly #blocks: string[][] = [];
  #length: number;

  constructor(items: readonly string[]) {
    this.#length = items.length;
    for (let at = 0; at < items.length; at += BLOCK) this.#blocks.push(items.slice(at, at + BLOCK));
  }

  get length(): number {
    return this.#length;
  }

  at(index: number): string | undefined {
    const { block, offset } = this.#find(index);
    return this.#blocks[block]?.[offset];
  }

  /** `index` is in the list. */
  set(index: number, item: string): void {
    const { block, offset } = this.#find(index);
    this.#blocks[block]?.splice(offset, 1, item);
  }

  /** `index` is in the list, or at its end. */
  insert(index: number, item: string): void {
    const { block, offset } = this.#find(index);
    const items = this.#blocks[block];
    this.#length++;
    if (items === undefined) this.#blocks.push([item]);
    else {
      items.splice(offset, 0, item);
      if (items.length > 2 * BLOCK) this.#blocks.splice(block, 1, items.slice(0, BLOCK), items.slice(BLOCK));
    }
  }

  /** `index` is in the list. */
  remove(index: number): void {
    const { block, offset } = this.#find(index);
    const items = this.#blocks[block];
    items?.splice(offset, 1);
    this.#length--;
    if (items?.length === 0) this.#blocks.splice(block, 1);
  }

  /** The list as JSON. */
  text(): string {
    return `[${this.#blocks.map((items) => items.join(',')).join(',')}]`;
  }

  /** The block of an index, and the place there; of the end, the end of the last block. */
  #find(index: number): { readonly block: number; readonly offset: number } {
    let offset = index;
    let block = 0;
    for (const last = this.#blocks.length - 1; block < last; block++) {
      const { length } = this.#blocks[block] as string[];
      if (offset < length) break;
      offset -= length;
    }
    return { block, offset };
  }
}
