import * as z from 'zod';
import type { PeerEntry } from '../../wire/data.js';
import type { AuditEntry } from '../log/update-log.js';

/** A query parameter with topics: separated by commas, repeated, or both. */
export const topicsQuery = z
  .union([z.string(), z.array(z.string()).max(1_000)])
  .transform((given): ReadonlySet<string> => new Set([given].flat().flatMap((text) => text.split(',').filter(Boolean))))
  .refine((topics) => topics.size > 0, 'must name a topic');

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
export const PAGE_CHARS = 4 * 1024 * 1024;

/** Estimates the characters of an update in a response; `isWhole`: with inline data and configurations. */
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
