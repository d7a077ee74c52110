import { SyncError } from '../../lib/errors.js';
import type { PostgresRequest, PostgresShape } from './postgres-config.js';

/** Converts the rows of a query to one JSON document. Pure: the caller has the connection. */

/** One row as JSON text of the database, and the value of the key column. */
export interface PrintedRow {
  readonly row: string;
  readonly key: string | null;
}

/** Rows of the first batch; their size determines the next batch. */
const FIRST_BATCH = 16;
const MAX_BATCH = 10_000;
/** Target size of a batch. */
const BATCH_BYTES = 256 * 1024;

/** Wraps the query of an entry so that each row is printed as JSON. */
export function selectText({ query, shape }: Pick<PostgresRequest, 'query' | 'shape'>): string {
  const key = shape.kind === 'keyed' ? `policysync_row.${identifier(shape.column)}::text` : 'null::text';
  // On separate lines: the query may end with a comment.
  return `select row_to_json(policysync_row)::text as row, ${key} as key from (\n${query}\n) as policysync_row`;
}

/**
 * Yields the document, piece by piece. `fetchRows` returns the next rows, fewer than requested at
 * the end. As OPAL's provider: a list of rows; with `fetch_one` the first row, `{}` if there is
 * none; with `fetch_key` an object of rows by the value of that column (the last row of a value
 * counts). Throws `fetch_failed` for a row without a key.
 */
export async function* rowsDocument(
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

/**
 * Estimates the rows of a batch from the size of the previous ones; at most doubles their number.
 */
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
