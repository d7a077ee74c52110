import { isUuid } from '../../auth/token-name.js';
import { withoutControls } from '../../lib/json/control-characters.js';
import type { ClientView } from '../../wire/clients.js';
import { labelsText } from '../../wire/labels.js';

/** Text of status lines: bounded, wrapped, without control characters. */

/** Digits of a commit to show. */
const SHOWN_HASH = 10;
/** Maximum length of one reason. */
const SHOWN_REASON = 1000;
const SECOND_MS = 1000;
const DAY_MS = 86_400_000;

/** Returns a short commit hash; `none` if there is none. */
export function shortHash(hash: string | null | undefined): string {
  return hash == null ? 'none' : printable(hash).slice(0, SHOWN_HASH);
}

/** Formats a duration: `3.2 s`, `41 s`, `7 min`, `5 h`, `3 days`. */
export function roughDuration(ms: number): string {
  const seconds = Math.max(0, ms) / SECOND_MS;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/**
 * The last moment of JavaScript's calendar, in milliseconds since 1970; the first one is as far
 * before.
 */
const LAST_MOMENT = 8.64e15;

/**
 * A moment as ISO 8601 in UTC; of a time beyond the calendar, which only a hostile peer says, the
 * nearest one.
 */
export function isoTime(atMs: number): string {
  return new Date(Math.min(LAST_MOMENT, Math.max(-LAST_MOMENT, atMs))).toISOString();
}

/**
 * Formats a start time: `since 18:03:11 UTC (7 min)`, with the date if that is more than a day ago.
 */
export function since(atMs: number, nowMs: number): string {
  const [date = '', time = ''] = isoTime(atMs).split(/[T.]/, 2);
  return `since ${nowMs - atMs < DAY_MS ? time : `${date} ${time}`} UTC (${roughDuration(nowMs - atMs)})`;
}

/** Returns an untrusted text as one bounded line without control characters. */
export function printable(text: string, length = SHOWN_REASON): string {
  const safe = withoutControls(text).replace(/ {2,}/g, ' ').trim();
  return safe.length > length ? `${safe.slice(0, length - 3)}...` : safe;
}

/**
 * A text of words of the page for a table, which has no lines to break: its no-break spaces are
 * spaces.
 */
export function plain(text: string): string {
  return text.replaceAll('\u00a0', ' ');
}

/** Shortens a long name in the middle: names differ mostly at their ends. */
export function shortName(text: string, length: number): string {
  const safe = printable(text, 1000);
  if (safe.length <= length) return safe;
  const tail = Math.floor((length - 3) / 2);
  return `${safe.slice(0, length - 3 - tail)}...${safe.slice(safe.length - tail)}`;
}

/** Longest text of a name, and of a UUID, in a table. */
const SHOWN_HOLDER = { name: 32, uuid: 13 };

/**
 * Returns who holds a token, as a table shows it: a name in full if it is not too long, of a UUID
 * the ends; `-` for nobody.
 */
export function shortHolder(holder: string | null | undefined): string {
  if (holder == null) return '-';
  return shortName(holder, isUuid(holder) ? SHOWN_HOLDER.uuid : SHOWN_HOLDER.name);
}

/** Longest text of labels in a table. */
const SHOWN_LABELS = 40;

/** Returns the labels of a client as `app=billing,zone=a`, `-` for none. */
export function labelsOf({ labels = {} }: Pick<ClientView, 'labels'>): string {
  return printable(labelsText(labels), SHOWN_LABELS) || '-';
}

/** Whether a client has labels. */
export function hasLabels({ labels = {} }: Pick<ClientView, 'labels'>): boolean {
  return Object.keys(labels).length > 0;
}

/** Formats a count with its noun: `1 update`, `2 updates`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/**
 * Wraps a text between words at `width` characters. Lines begin with `indent`, the first one with
 * `first`.
 */
export function wrapped(text: string, width: number, indent: string, first = ''): string[] {
  const lines: string[] = [];
  let line = first;
  let isEmpty = true;
  for (const word of text.split(/ +/)) {
    let rest = word;
    if (!isEmpty && line.length + 1 + rest.length > width) {
      lines.push(line);
      line = indent;
      isEmpty = true;
    }
    // Cut a word that is longer than a line.
    while (line.length + rest.length > width && rest.length > 1) {
      const room = Math.max(1, width - line.length);
      lines.push(line + rest.slice(0, room));
      rest = rest.slice(room);
      line = indent;
    }
    line += isEmpty ? rest : ` ${rest}`;
    isEmpty = false;
  }
  return [...lines, line];
}

/** Aligns the cells of rows in columns. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const columns = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
