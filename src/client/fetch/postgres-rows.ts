import { SyncError } from '../../lib/errors.js';
import type { PostgresRequest, PostgresShape } from './postgres-config.js';

/** The rows of a query as one JSON document: pure, the caller has the connection. */

/** One row as the database prints it, and the value of the key column. */
export interface PrintedRow {
  readonly row: string;
  readonly key: string | null;
}

/** Rows of the first batch; how many follow depends on how large these were. */
const FIRST_BATCH = 16;
const MAX_BATCH = 10_000;
/** Bytes that a batch should have. */
const BATCH_BYTES = 256 * 1024;

/** The query around an entry's own, which prints each row as JSON. */
export function selectText({ query, shape }: Pick<PostgresRequest, 'query' | 'shape'>): string {
  const key = shape.kind === 'keyed' ? `policysync_row.${identifier(shape.column)}::text` : 'null::text';
  // On lines of its own: the query may end with a comment.
  return `select row_to_json(policysync_row)::text as row, ${key} as key from (\n${query}\n) as policysync_row`;
}

/**
 * The document, piece by piece. `fetchRows` gives the next rows, fewer than asked for at the end. As OPAL's provider: a
 * list of rows; with `fetch_one` the first row, `{}` where there is none; with `fetch_key` an object of rows by the value
 * of that column, of which the last row counts. Throws `fetch_failed` for a row without a key.
 */
export async function* documentOf(
  shape: PostgresShape,
  fetchRows: (count: number) => Promise<readonly PrintedRow[]>,
): AsyncGenerator<Uint8Array> {
  if (shape.kind === 'one') {
    const [first] = await fetchRows(1);
    yield Buffer.from(first?.row ?? '{}');
    return;
  }
  yield Buffer.from(shape.kind === 'list' ? '[' : '{');
  let separator = '';
  for (let count = FIRST_BATCH; ; ) {
    const rows = await fetchRows(count);
    const printed = rows.map((row) => (shape.kind === 'list' ? row.row : member(row, shape.column)));
    const bytes = Buffer.from(printed.length === 0 ? '' : separator + printed.join(','));
    yield bytes;
    if (rows.length < count) break;
    separator = ',';
    count = nextCount(rows.length, bytes.length);
  }
  yield Buffer.from(shape.kind === 'list' ? ']' : '}');
}

/** As many rows as have the bytes of a batch, if they are like those before; at most twice as many as then. */
function nextCount(rows: number, bytes: number): number {
  const fitting = Math.floor((BATCH_BYTES * rows) / Math.max(bytes, 1));
  return Math.max(1, Math.min(fitting, rows * 2, MAX_BATCH));
}

function member({ row, key }: PrintedRow, column: string): string {
  if (key === null) throw new SyncError('fetch_failed', `a row has no value in ${column}, which is its key`);
  return `${JSON.stringify(key)}:${row}`;
}

function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
