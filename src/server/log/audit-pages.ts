import type { LogStore } from './log-store.js';
import { readUpdateRow } from './row.js';
import type { AuditRecord } from './update-log.js';

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
