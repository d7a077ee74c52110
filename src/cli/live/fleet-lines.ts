import type { ClientsAnswer, ClientView } from '../../wire/clients.js';
import { refusedUpdates } from '../../wire/refused-updates.js';
import {
  counted,
  hasLabels,
  labelsOf,
  printable,
  roughDuration,
  shortHash,
  shortName,
  since,
  table,
  wrapped,
} from '../kit/text.js';
import { conditionsOf, lacksData, lacksPolicy } from './client-state.js';
import { reasonLines, sourceLines } from './reason-lines.js';

const LONGEST_ID = 48;
const SHORTEST_ID = 16;

/** The terminal of the output. */
export interface Page {
  readonly nowMs: number;
  /** Characters of a line; `Infinity`: lines are not wrapped. */
  readonly width: number;
}

/**
 * Formats all clients as lines for a terminal: the policy source, with the reason if it fails, then
 * a table of the clients, unhealthy ones first, each followed by its reasons.
 */
export function fleetLines(answer: ClientsAnswer, page: Page): string[] {
  const { clients, head, policy_head: policyHead, incomplete, policy_source: source } = answer;
  const { clock, log_refuses: refusal } = answer;
  const sorted = clients.toSorted((a, b) => Number(isWell(a)) - Number(isWell(b)));
  const refused = source?.refused === undefined ? '' : `, whose head ${shortHash(source.refused)} is refused`;
  const summary = `${counted(clients.length, 'client')}, update log at ${head}, policy at ${shortHash(policyHead)}${refused}`;
  const notes = [
    ...(source === undefined ? [] : sourceLines(source, page.nowMs)),
    ...(clock === undefined ? [] : [`Clock: ${printable(clock)}; set both by NTP`]),
    ...(refusal === undefined
      ? []
      : [
          `Update log: takes no ${refusedUpdates(refusal.from_bytes)} ${since(refusal.since, page.nowMs)}${refusal.reason === undefined ? '' : `: ${printable(refusal.reason)}`}`,
        ]),
    ...(incomplete === null ? [] : [`There may be more clients: ${printable(incomplete)}`]),
  ];
  const [header = '', ...rows] = fleetTable(sorted, page);
  const lines = sorted.flatMap((client, index) => [
    rows[index] ?? '',
    ...reasonLines(client, page.nowMs).flatMap((line) => wrapped(line, page.width, '    ', '  ')),
  ]);
  return [
    ...wrapped(summary, page.width, '  '),
    ...notes.flatMap((line) => wrapped(line, page.width, '  ')),
    ...(clients.length === 0 ? [] : ['', header, ...lines]),
  ];
}

function isWell(client: ClientView): boolean {
  return conditionsOf(client).size === 0 && client.ready !== false;
}

/** Returns the header and a row for each client, within the width of the page if possible. */
function fleetTable(clients: readonly ClientView[], { nowMs, width }: Page): string[] {
  const build = (idLength: number, { engine, labels }: { engine: boolean; labels: boolean }): string[] =>
    table([
      ['CLIENT', 'STATE', ...(engine ? ['ENGINE'] : []), 'POLICY', 'DATA', 'BEHIND', ...(labels ? ['LABELS'] : [])],
      ...clients.map((client) => [
        shortName(client.client_id, idLength),
        stateOf(client, nowMs),
        ...(engine ? [engineOf(client)] : []),
        client.kind === 'plain' ? '?' : shortHash(client.policy.held),
        dataOf(client),
        behindOf(client),
        ...(labels ? [labelsOf(client)] : []),
      ]),
    ]);
  const excess = (rows: readonly string[]): number => Math.max(...rows.map((row) => row.length)) - width;
  const nothing = { engine: false, labels: false };
  const wholes = clients.some(hasLabels) ? [{ engine: true, labels: true }] : [];
  for (const columns of [...wholes, { ...nothing, engine: true }, nothing]) {
    const rows = build(LONGEST_ID, columns);
    if (excess(rows) <= 0) return rows;
  }
  const narrower = build(LONGEST_ID, nothing);
  const longest = Math.min(LONGEST_ID, Math.max(...clients.map(({ client_id: id }) => id.length)));
  return build(Math.max(SHORTEST_ID, longest - excess(narrower)), nothing);
}

/** Its state, and for how long. */
export function stateOf(
  { kind, connected, connected_at, away_since, healthy, ready, since }: ClientView,
  nowMs: number,
): string {
  if (!connected) return `away ${roughDuration(nowMs - (away_since ?? nowMs))}`;
  if (kind === 'plain') return `opal ${roughDuration(nowMs - connected_at)}`;
  if (healthy === null) return `new ${roughDuration(nowMs - connected_at)}`;
  const name = healthy ? 'healthy' : ready === true ? 'unhealthy' : 'not ready';
  return since === null ? name : `${name} ${roughDuration(nowMs - since)}`;
}

function engineOf({ engine }: ClientView): string {
  return engine === null ? '?' : printable(`${engine.kind} ${engine.version ?? ''}`, 24);
}

/**
 * Its position in the updates of its topics: at most the newest of these, since the log has other
 * rows too.
 */
function dataOf({ kind, data: { newest: last, applied, wanted, held } }: ClientView): string {
  if (kind === 'plain') return '?';
  const newest = last ?? Math.max(0, ...Object.values(wanted));
  if (newest === 0) return '-';
  const open = held === null || held.unresolved.length === 0 ? '' : `, ${held.unresolved.length} open`;
  return `${Math.min(applied ?? held?.applied_through ?? 0, newest)} of ${newest}${open}`;
}

function behindOf(client: ClientView): string {
  const { kind, data } = client;
  if (kind === 'plain') return '?';
  const { lag_updates: updates, lag_seconds: seconds, lag_at_least: isAtLeast } = data;
  const lag = `${isAtLeast ? '>= ' : ''}${counted(updates ?? 0, 'update')}, ${roughDuration((seconds ?? 0) * 1000)}`;
  const parts = [
    ...(lacksPolicy(client) ? ['policy'] : []),
    ...(updates === null ? ['?'] : lacksData(client) ? [lag] : []),
  ];
  return parts.join('; ') || '-';
}
