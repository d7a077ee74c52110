import type { LogStore } from './log-store.js';
import { readUpdateRow } from './row.js';
import type { AuditRecord, LogRecord, TailPage } from './update-log.js';

/** Pages of a log, read from the store: for those who were away, and for the audit. */

/** {@link UpdateLog.tail}. `head`: the last row that readers of the fold see now. */
export async function readTail(
  store: Pick<LogStore, 'read'>,
  head: () => number,
  after: number,
  limit: number,
): Promise<TailPage | undefined> {
  if (after > head()) return undefined;
  const rows = await store.read(after, Math.max(1, limit));
  const records: LogRecord[] = [];
  let through = after;
  for (const row of rows) {
    if (row.seq > head()) break; // it is there, but a reader of the fold would not see it yet
    if (row.seq !== through + 1) return undefined;
    through = row.seq;
    const read = row.kind === 'update' ? readUpdateRow(row) : undefined;
    if (read?.kind === 'record') records.push(read.record);
  }
  if (through === after && after < head()) return undefined;
  return { records, through, more: through < head() };
}

/** {@link UpdateLog.audit}. */
export async function readAudit(
  store: Pick<LogStore, 'readBack'>,
  before: number,
  limit: number,
): Promise<{ records: readonly AuditRecord[]; next: number | undefined }> {
  const rows = await store.readBack(before, limit);
  const read = rows.map((row) => (row.kind === 'update' ? readUpdateRow(row) : undefined));
  const records = read.flatMap((item) => (item?.kind === 'record' ? [item.record] : []));
  return { records, next: rows.at(-1)?.seq };
}
