import type { PeerEntry } from '../../wire/data.js';

/** What of an update its publisher chose the length of. */
interface Sized {
  readonly id: string;
  readonly reason: string | null;
  readonly entries: readonly PeerEntry[];
  readonly callbacks: readonly unknown[];
}

/** Characters of the updates of one page. */
export const PAGE_CHARS = 4 * 1024 * 1024;

/** Characters that an update has in an answer, roughly; `isWhole`: with inline data and configurations. */
export function charsOf({ id, reason, entries, callbacks }: Sized, isWhole = true): number {
  let chars = id.length + (reason?.length ?? 0) + 200 * entries.length;
  for (const { url, dst_path, topics, config, data } of entries) {
    chars += url.length + dst_path.length;
    for (const topic of topics) chars += topic.length;
    if (!isWhole) continue;
    chars += data?.text.length ?? 0;
    if (config) chars += JSON.stringify(config).length;
  }
  return callbacks.length === 0 ? chars : chars + JSON.stringify(callbacks).length;
}
