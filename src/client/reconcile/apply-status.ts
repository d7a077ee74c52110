import type { KnownEntry } from '../desired/entry.js';
import type { Entries } from '../desired/entry-table.js';
import type { ApplyStatus } from '../position/position-waits.js';
import type { LogCursor } from './log-cursor.js';

/**
 * How the client stands to an update: `applied` when the engine has it, or what replaced it, and everything before it
 * that overlaps its paths (design D21). Of an update that does not concern this client it is `applied`, too.
 */
export function applyStatusOf(seq: number, state: LogCursor, table: Entries): ApplyStatus {
  const { position } = state;
  if (!position.knows(seq) || (position.isDoubtful && seq > position.through)) return 'unknown';
  const own = [...table.all()].filter((entry) => entry.rank.seq === seq && state.has(entry));
  const open = own
    .flatMap((entry) => table.overlapping(entry.path))
    .filter(({ state: { kind }, rank }) => kind !== 'applied' && rank.era === state.era && rank.seq <= seq);
  if (open.some((entry) => entry.state.kind === 'blocked')) return 'blocked';
  return open.length > 0 || position.isHidden(seq) ? 'pending' : 'applied';
}

/** Seqs of updates of the log that the engine refuses until policy or data change. */
export function blockedSeqs(state: LogCursor, table: Entries): number[] {
  const blocked = [...table.all()].filter((entry) => entry.state.kind === 'blocked' && state.has(entry));
  return [...new Set(blocked.map(({ rank }) => rank.seq))].sort((a, b) => a - b);
}

/** What the engine holds though no log and no configuration has it (any more): it is listed and stays (design D11). */
export function orphansOf(state: LogCursor, table: Entries): KnownEntry[] {
  return [...table.all()].filter((entry) => isOrphan(entry, state, table));
}

/** Whether it is one of {@link orphansOf}. */
export function isOrphan(entry: KnownEntry, state: LogCursor, table: Entries): boolean {
  const { origin, path, rank, epoch } = entry;
  const isOld = rank.era < state.era && epoch !== state.name;
  const isLeft = origin === 'base' ? entry.isUnlisted === true : state.isRead && isOld;
  return isLeft && entry.state.kind !== 'gone' && !table.covered(path, rank);
}
