import { SyncError } from '../../lib/errors.js';
import type { AuditRecord, UpdateLog } from '../log/update-log.js';
import type { ChangeMemory } from '../trace/change-times.js';

/** What instances remember, by seq or hash. */
export type Memories = readonly { readonly instance: string; readonly known: MemoryOf }[];
type MemoryOf = Pick<ReadonlyMap<number | string, ChangeMemory<string>>, 'get'> & {
  entries(): Iterable<readonly [number | string, ChangeMemory<string>]>;
};

/** A change that somebody asks about. */
export type FoundChange =
  | { readonly kind: 'update'; readonly record: AuditRecord }
  | { readonly kind: 'commit'; readonly hash: string };

/** Shortest part of a commit hash that is searched for. */
const SHORTEST_HASH = 7;
/** Maximum rows of the log in which an id is searched for, newest first. */
const LOOKED_THROUGH = 20_000;
const ROWS_AT_ONCE = 500;

/** Finds a change by seq, one of these commits (or its beginning) or update id. Rejects with `request_invalid` if several commits begin like this. */
export async function findChange(
  asked: string,
  {
    log,
    memories,
    commits,
  }: { log: Pick<UpdateLog, 'head' | 'audit'>; memories: Memories; commits: readonly string[] },
): Promise<FoundChange | undefined> {
  if (/^\d{1,15}$/.test(asked)) {
    const record = await recordAt(log, Number(asked));
    if (record !== undefined) return { kind: 'update', record };
  }
  const hash = commitOf(asked.toLowerCase(), commits);
  if (hash !== undefined) return { kind: 'commit', hash };
  const record = await recordOf(asked, log, memories);
  return record === undefined ? undefined : { kind: 'update', record };
}

function commitOf(asked: string, commits: readonly string[]): string | undefined {
  if (asked.length < SHORTEST_HASH || !/^[0-9a-f]+$/.test(asked)) return undefined;
  const fitting = commits.filter((hash) => hash.startsWith(asked));
  if (fitting.length < 2) return fitting[0];
  throw new SyncError('request_invalid', `several commits begin with ${asked}: ${fitting.slice(0, 5).join(', ')}`);
}

async function recordAt(log: Pick<UpdateLog, 'head' | 'audit'>, seq: number): Promise<AuditRecord | undefined> {
  if (seq < 1 || seq > log.head) return undefined;
  const { records } = await log.audit(seq + 1, 1);
  return records.find((record) => record.seq === seq);
}

/** The last update with an id: several may have the same. */
async function recordOf(
  id: string,
  log: Pick<UpdateLog, 'head' | 'audit'>,
  memories: Memories,
): Promise<AuditRecord | undefined> {
  const remembered = memories.flatMap(({ known }) =>
    [...known.entries()].flatMap(([key, memory]) => (typeof key === 'number' && memory.id === id ? [key] : [])),
  );
  if (remembered.length > 0) {
    const record = await recordAt(log, Math.max(...remembered));
    if (record !== undefined) return record;
  }
  const lowest = log.head - LOOKED_THROUGH;
  for (let before: number | undefined = log.head + 1; before !== undefined && before > Math.max(1, lowest); ) {
    const page: Awaited<ReturnType<UpdateLog['audit']>> = await log.audit(before, ROWS_AT_ONCE);
    const found = page.records.find((record) => record.id === id);
    if (found !== undefined) return found;
    before = page.next;
  }
  return undefined;
}
