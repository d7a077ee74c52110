import { redactUrl } from '../../../lib/observe/log.js';
import { counted, printable, shortHolder } from '../../kit/text.js';
import type { LoggedUpdate } from './pages.js';

/** Maximum entries of an update to show; `--json` has all. */
const SHOWN_ENTRIES = 10;
const HEADER = ['SEQ', 'TIME', 'PUBLISHER', 'CHANGE', 'TOPICS', 'REASON'];
/** Columns that later lines keep: widths of the longest cell so far. */
export type Widths = readonly number[];

/**
 * Lines for a terminal, oldest update first: one for each entry. The next lines go on with
 * `widths`.
 */
export function logLines(
  updates: readonly LoggedUpdate[],
  width: number,
  before?: Widths,
): { readonly lines: readonly string[]; readonly widths: Widths } {
  const rows = [...(before === undefined ? [HEADER] : []), ...updates.flatMap(rowsOf)];
  const widths = HEADER.map((_, column) =>
    Math.max(
      before?.[column] ?? 0,
      ...rows.map((row) => (column === HEADER.length - 1 ? 0 : (row[column]?.length ?? 0))),
    ),
  );
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  return { lines: lines.map((line) => (line.length > width ? `${line.slice(0, width - 3)}...` : line)), widths };
}

function rowsOf({ seq, time, publisher, reason, entries }: LoggedUpdate): string[][] {
  const more = entries.length - SHOWN_ENTRIES;
  const changes = entries.slice(0, SHOWN_ENTRIES).map((entry) => [changeOf(entry), topicsOf(entry.topics)] as const);
  const all = more > 0 ? [...changes, [`and ${more} more ${more === 1 ? 'entry' : 'entries'}`, ''] as const] : changes;
  return all.map(([change, topics], index) =>
    index === 0
      ? [String(seq), timeOf(time), shortHolder(publisher), change, topics, printable(reason ?? '', 200)]
      : ['', '', '', change, topics, ''],
  );
}

/** `PUT /users from http://...`, `PATCH /users (27 bytes)`, `DELETE /users`. */
function changeOf({
  save_method: method,
  dst_path: path,
  url,
  data_bytes: bytes,
}: LoggedUpdate['entries'][number]): string {
  const source = bytes !== undefined ? ` (${counted(bytes, 'byte')})` : url === '' ? '' : ` from ${redactUrl(url)}`;
  return printable(`${method} ${path === '' ? '/' : path}${source}`, 100);
}

function topicsOf(topics: readonly string[]): string {
  const more = topics.length - 3;
  return printable([...topics.slice(0, 3), ...(more > 0 ? [`and ${more} more`] : [])].join(', '), 60);
}

/** `2026-11-21 10:00:00`, in UTC; another text as it is. */
function timeOf(time: string): string {
  const found = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)/.exec(time);
  return found === null ? printable(time, 30) : `${found[1]} ${found[2]}`;
}
