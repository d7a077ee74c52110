import { SMALL_BYTES } from '../../lib/budget.js';
import { ByteCache } from '../../lib/byte-cache.js';
import { type CallerTurn, SharedWork } from '../../lib/shared-work.js';
import type { UpdateLog } from '../log/update-log.js';

/** Memory for large pages. */
const KEPT_BYTES = 32 * 1024 * 1024;

/**
 * Pages of one state of the log. After an outage a fleet asks for the same page at once: it is printed once, and all responses share its
 * bytes while they are under way.
 */
export class PageTexts {
  readonly #log: Pick<UpdateLog, 'head' | 'foldVersion'>;
  #head = -1;
  #version = -1;
  #kept = newCache();
  #printing = new SharedWork<string | Buffer>();

  constructor(log: Pick<UpdateLog, 'head' | 'foldVersion'>) {
    this.#log = log;
  }

  /** The page of a key, which says all that it depends on beside the log. */
  async get(key: string, turn: CallerTurn, print: () => Promise<string>): Promise<string | Buffer> {
    this.#refresh();
    // If the log moves meanwhile, nobody looks into this cache any more.
    const kept = this.#kept;
    const printed = async (): Promise<string | Buffer> => {
      const known = kept.get(key);
      if (known !== undefined) return known;
      const text = await print();
      if (text.length <= SMALL_BYTES) return text;
      const bytes = Buffer.from(text);
      kept.set(key, bytes);
      return bytes;
    };
    return kept.get(key) ?? (await this.#printing.get(key, turn, printed));
  }

  #refresh(): void {
    const { head } = this.#log;
    // The fold can change without the head: updates expire.
    const version = this.#log.foldVersion();
    if (this.#head === head && this.#version === version) return;
    this.#head = head;
    this.#version = version;
    this.#kept = newCache();
    this.#printing = new SharedWork();
  }
}

function newCache(): ByteCache<Buffer> {
  return new ByteCache(KEPT_BYTES, ({ length }) => length);
}
