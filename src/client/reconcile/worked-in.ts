import type { PeerEntry } from '../../wire/data.js';
import { entryPath, entryReplaces } from '../desired/entry.js';
import type { Entries } from '../desired/entry-table.js';
import type { LogCursor } from './log-cursor.js';

/**
 * Where a document of the fold stands among the entries of its update: `at`, or after the patches of the same update that are
 * known already. A patch is worked into its document there, which takes its place (design D16): on top of that it would be
 * applied once more, and taken out before the document is in it would be missing meanwhile. `ids` are those of the fold.
 */
export function indexInFold(
  entry: PeerEntry,
  { seq, at, ids }: { readonly seq: number; readonly at: number; readonly ids: ReadonlySet<string> },
  { cursor, table }: { readonly cursor: LogCursor; readonly table: Entries },
): number {
  if (!entryReplaces(entry)) return at;
  const worked = table
    .atOrBelow(entryPath(entry))
    .filter(({ id, rank }) => rank.era === cursor.era && rank.seq === seq && !ids.has(id));
  return Math.max(at, ...worked.map(({ rank }) => rank.index + 1));
}
