import type { ClientView } from '../../../wire/clients.js';
import { POLICY_TOPIC } from '../../../wire/topics.js';
import { hasLabels, labelsOf, printable, roughDuration, shortHolder, shortName, table } from '../../kit/text.js';
import { type Page, stateOf } from '../../live/fleet-lines.js';

/** Longest text of one cell. */
const LONGEST = 40;
const SHORTEST_ID = 16;

/** A column: its heading and the cell of a client. */
type Column = readonly [string, (client: ClientView, nowMs: number) => string];

/** In the order in which they stand. */
const COLUMNS: readonly Column[] = [
  ['STATE', stateOf],
  ['CONNECTED', ({ connected, connected_at: at }, nowMs) => (connected ? roughDuration(nowMs - at) : '-')],
  ['ADDRESS', ({ address }) => printable(address, LONGEST)],
  ['SERVER', ({ instance }) => shortName(instance, 12)],
  ['SUBJECT', ({ subject }) => shortHolder(subject)],
  ['ENGINE', ({ engine }) => (engine === null ? '?' : printable(`${engine.kind} ${engine.version ?? ''}`, 24))],
  ['LABELS', labelsOf],
  ['TOPICS', ({ topics, topics_left_out: more = 0 }) => topicsText(topics, more)],
];
/** What gives way first where the terminal is narrow. */
const LEFT_OUT = ['LABELS', 'SUBJECT', 'ENGINE', 'SERVER', 'CONNECTED', 'ADDRESS', 'TOPICS'];

/**
 * Formats clients as a table by name, header first; a narrow page shows fewer columns, and shorter
 * names at last.
 */
export function clientTable(clients: readonly ClientView[], { nowMs, width }: Page): string[] {
  const sorted = clients.toSorted((a, b) => (a.client_id < b.client_id ? -1 : 1));
  const build = (columns: readonly Column[], idLength: number): string[] =>
    table([
      ['CLIENT', ...columns.map(([heading]) => heading)],
      ...sorted.map((client) => [
        shortName(client.client_id, idLength),
        ...columns.map(([, cell]) => cell(client, nowMs)),
      ]),
    ]);
  const excess = (rows: readonly string[]): number => Math.max(...rows.map((row) => row.length)) - width;
  const all = COLUMNS.filter(([heading]) => heading !== 'LABELS' || sorted.some(hasLabels));
  for (let count = 0; ; count++) {
    const columns = all.filter(([heading]) => !LEFT_OUT.slice(0, count).includes(heading));
    const rows = build(columns, LONGEST);
    if (excess(rows) <= 0) return rows;
    if (count < LEFT_OUT.length) continue;
    const longest = Math.min(LONGEST, Math.max(...sorted.map(({ client_id: id }) => id.length)));
    return build(columns, Math.max(SHORTEST_ID, longest - excess(rows)));
  }
}

/** Topics of data by name, those of policy by their number: each directory has its own. */
function topicsText(topics: readonly string[], leftOut: number): string {
  const ofPolicy = topics.filter((topic) => POLICY_TOPIC.test(topic)).length;
  const ofData = topics.filter((topic) => !POLICY_TOPIC.test(topic));
  const shown = ofData.slice(0, 3).map((topic) => printable(topic, 24));
  const more = ofData.length - shown.length + leftOut;
  const parts = [
    ...(ofPolicy === 0 ? [] : [`${ofPolicy} of policy`]),
    ...shown,
    ...(more > 0 ? [`and ${more} more`] : []),
  ];
  return parts.join(', ') || '-';
}
