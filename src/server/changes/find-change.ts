import type { Permitted } from '../../auth/caller.js';
import { SyncError } from '../../lib/errors.js';
import type { RowKind } from '../log/log-store.js';
import { lookThrough, partFor } from '../log/look-through.js';
import type { AuditRecord, HistoryReader } from '../log/update-log.js';
import { commitOfRow } from '../policy/source/shared-policy-head.js';
import type { ChangeMemory } from './change-times.js';

/** What instances remember, by seq or hash. */
export type Memories = readonly { readonly instance: string; readonly known: MemoryOf }[];
type MemoryOf = Pick<ReadonlyMap<number | string, ChangeMemory<string>>, 'get'> & {
  entries(): Iterable<readonly [number | string, ChangeMemory<string>]>;
};

/** A change that somebody asks about. */
export type FoundChange =
  | { readonly kind: 'update'; readonly record: AuditRecord }
  | { readonly kind: 'commit'; readonly hash: string }
  /** Nothing is known of it. `lookedTo`: where the search ended; `row`: what stands at this seq. */
  | { readonly kind: 'none'; readonly lookedTo: number | undefined; readonly row?: OtherRow };

/** A row of the log that is no data update; `commit`: what a row of kind `policy` is about. */
export interface OtherRow {
  readonly kind: RowKind | 'dropped';
  readonly commit: string | undefined;
}

/** Shortest part of a commit hash that is searched for. */
const SHORTEST_HASH = 7;

/**
 * Finds a change by seq (of an update, or of a row about a commit), one of these commits (or its
 * beginning) or update id, where the caller may see any. Rejects with `request_invalid` if several
 * commits begin like this.
 */
export async function findChange(asked: string, deps: FindDeps): Promise<FoundChange> {
  const { log, memories, commits, limits } = deps;
  const isSeq = /^\d{1,15}$/.test(asked) && partFor(log, limits) !== undefined;
  if (isSeq) {
    const record = await recordAt(log, Number(asked));
    if (record !== undefined) return { kind: 'update', record };
  }
  const hash = commitOf(asked.toLowerCase(), commits);
  if (hash !== undefined) return { kind: 'commit', hash };
  const found = await findById(asked, log, memories, limits);
  if (found.kind !== 'none' || !isSeq) return found;
  const row = await otherRow(Number(asked), deps);
  const isKnown = row?.commit !== undefined && commits.includes(row.commit);
  return isKnown ? { kind: 'commit', hash: row.commit } : { ...found, ...(row && { row }) };
}

async function otherRow(seq: number, { log }: FindDeps): Promise<OtherRow | undefined> {
  if (seq < 1 || seq > log.head) return undefined;
  const row = await log.row(seq);
  if (row === undefined) return { kind: 'dropped', commit: undefined };
  const isAbout = row.kind === 'policy' && row.body !== undefined;
  return { kind: row.kind, commit: isAbout ? commitOfRow(row.body) : undefined };
}

interface FindDeps {
  readonly log: HistoryReader;
  readonly memories: Memories;
  readonly commits: readonly string[];
  readonly limits: Permitted;
}

function commitOf(asked: string, commits: readonly string[]): string | undefined {
  if (asked.length < SHORTEST_HASH || !/^[0-9a-f]+$/.test(asked)) return undefined;
  const fitting = commits.filter((hash) => hash.startsWith(asked));
  if (fitting.length < 2) return fitting[0];
  throw new SyncError('request_invalid', `several commits begin with ${asked}: ${fitting.slice(0, 5).join(', ')}`);
}

async function recordAt(log: HistoryReader, seq: number): Promise<AuditRecord | undefined> {
  if (seq < 1 || seq > log.head) return undefined;
  const { records } = await log.audit(seq + 1, 1);
  return records.find((record) => record.seq === seq);
}

/** The last update with an id: several may have the same. */
async function findById(id: string, log: HistoryReader, memories: Memories, limits: Permitted): Promise<FoundChange> {
  const part = partFor(log, { ...limits, id });
  if (part === undefined) return { kind: 'none', lookedTo: undefined };
  const remembered = memories.flatMap(({ known }) =>
    [...known.entries()].flatMap(([key, memory]) => (typeof key === 'number' && memory.id === id ? [key] : [])),
  );
  if (remembered.length > 0) {
    const record = await recordAt(log, Math.max(...remembered));
    if (record !== undefined) return { kind: 'update', record };
  }
  let found: AuditRecord | undefined;
  const rest = await lookThrough(log, log.head + 1, part, (record) => {
    if (record.id === id) found = record;
    return found === undefined;
  });
  return found === undefined ? { kind: 'none', lookedTo: rest?.next } : { kind: 'update', record: found };
}
