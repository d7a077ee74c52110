import * as z from 'zod';
import { SMALL_BYTES } from '../../lib/run/budget.js';
import { ByteCache } from '../../lib/run/byte-cache.js';
import { type CallerTurn, SharedWork } from '../../lib/run/shared-work.js';
import type { PeerEntry } from '../../wire/data.js';
import { isDocPath, parseDocPath } from '../../wire/doc-path.js';
import type { AuditEntry } from '../log/update-log.js';

/** A query parameter with topics: separated by commas, repeated, or both. */
export const topicsQuery = z
  .union([z.string(), z.array(z.string()).max(1_000)])
  .transform((given): ReadonlySet<string> => new Set([given].flat().flatMap((text) => text.split(',').filter(Boolean))))
  .refine((topics) => topics.size > 0, 'must name a topic');

/** A path in a query. */
export const docPath = z
  .string()
  .refine(isDocPath, 'must be a path without . and .. segments')
  .transform((text) => parseDocPath(text));

/** Whether a topic is both permitted and wanted; undefined: all topics are. */
export function isShown(
  topics: readonly string[],
  permitted: ReadonlySet<string> | undefined,
  wanted: ReadonlySet<string> | undefined,
): boolean {
  return topics.some((topic) => (permitted?.has(topic) ?? true) && (wanted?.has(topic) ?? true));
}

interface Sized {
  readonly id: string;
  readonly reason: string | null;
  readonly entries: readonly (PeerEntry | AuditEntry)[];
  readonly callbacks: readonly unknown[];
}

/** Maximum characters of the updates of one page. */
export const RESPONSE_PAGE_CHARS = 4 * 1024 * 1024;

/** Estimates an update's characters in a response; `isWhole`: with data and configurations. */
export function charsOf({ id, reason, entries, callbacks }: Sized, isWhole = true): number {
  let chars = id.length + (reason?.length ?? 0) + 200 * entries.length;
  for (const entry of entries) {
    const { url, dst_path, topics, config } = entry;
    chars += url.length + dst_path.length;
    for (const topic of topics) chars += topic.length;
    if (!isWhole) continue;
    if ('data' in entry) chars += entry.data?.text.length ?? 0;
    else if ('dataBytes' in entry) chars += entry.dataBytes ?? 0;
    if (config) chars += JSON.stringify(config).length;
  }
  return callbacks.length === 0 ? chars : chars + JSON.stringify(callbacks).length;
}

/** Memory for large pages. */
const KEPT_BYTES = 32 * 1024 * 1024;

/** What tells that pages are of an earlier state. */
interface PagedLog {
  readonly head: number;
  foldVersion(): number;
}

/**
 * Pages of one state of the log. After an outage a fleet asks for the same page at once: it is
 * printed once, and all responses share its bytes while they are under way.
 */
export class PageTexts {
  readonly #log: PagedLog;
  #head = -1;
  #version = -1;
  #kept = newCache();
  #printing = new SharedWork<string | Buffer>();

  constructor(log: PagedLog) {
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
