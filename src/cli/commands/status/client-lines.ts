import { measured } from '../../../fleet-rules/words.js';
import type { ClientAnswer, ClientTransaction } from '../../../wire/client-details.js';
import { labelsText } from '../../../wire/labels.js';
import {
  counted,
  plain,
  printable,
  roughDuration,
  shortHash,
  shortName,
  since,
  table,
  wrapped,
} from '../../kit/text.js';
import { type Page, stateOf } from '../../live/fleet-lines.js';
import { hasPolicyReason, reasonLines } from '../../live/reason-lines.js';

/** Column of the values. */
const COLUMN = 10;
const SHOWN_ORPHANS = 5;
const SHOWN_PATHS = 2;
const LONGEST_CELL = 40;

/** Why a client tells nothing of itself. */
const MISSING: Readonly<Record<string, string>> = {
  away: 'it is not connected',
  plain: 'it is an OPAL client, which cannot be asked',
  old: 'it is of a version that cannot be asked',
  no_answer: 'it is connected, and has not answered',
  limited: 'the token is limited, and does not permit all of it',
};

/** One client in full as lines for a terminal. */
export function clientLines(answer: ClientAnswer, page: Page): string[] {
  const { client, details } = answer;
  const { nowMs, width } = page;
  const reasons = reasonLines(client, nowMs);
  const rows: [string, string][] = [
    ['State', stateOf(client, nowMs)],
    ...(Object.keys(client.labels ?? {}).length > 0
      ? [['Labels', printable(labelsText(client.labels ?? {}))] as [string, string]]
      : []),
    ['Address', `${printable(client.address, 100)}, server instance ${shortName(client.instance, 12)}`],
    ['Engine', engineText(answer)],
    ...(hasPolicyReason(client) ? [] : [['Policy', `holds ${shortHash(client.policy.held)}`] as [string, string]]),
    ...reasons.map((line): [string, string] => ['Why', line]),
    ...(answer.same_error > 1
      ? [['', `${counted(answer.same_error, 'client')} with the same error`] as [string, string]]
      : []),
    ...detailRows(answer, nowMs),
  ];
  return [
    printable(client.client_id, 300),
    ...rows.flatMap(([name, text]) => wrapped(text, width, ' '.repeat(COLUMN), name.padEnd(COLUMN))),
    ...sourceLines(answer),
    ...topicLines(answer),
    ...(details === null ? [] : transactionLines(details.transactions, nowMs)),
  ];
}

function engineText({ client: { engine }, details }: ClientAnswer): string {
  if (engine === null) return 'unknown';
  const rego = details?.rego;
  const versions = rego == null ? '' : `, Rego ${printable(rego.mode, 20)}: ${rego.v1} of v1, ${rego.v0} of v0`;
  return `${printable(`${engine.kind} ${engine.version ?? ''}`, 40)}${engine.online ? '' : ', does not answer'}${versions}`;
}

function detailRows({ details, details_missing: missing }: ClientAnswer, nowMs: number): [string, string][] {
  if (details === null) {
    const why = MISSING[missing ?? ''] ?? printable(missing ?? 'nothing is known of why', 100);
    return [['Details', `it tells nothing of itself: ${why}`]];
  }
  const { version, started_at: started, log_level: level, drift, orphaned, orphaned_total: total } = details;
  const named = orphaned
    .slice(0, SHOWN_ORPHANS)
    .map(({ path, reason }) => `${printable(path, 200)} (${printable(reason, 200)})`);
  const more = total > named.length ? ', ...' : '';
  const checked =
    drift?.checked_at == null ? 'never checked' : `checked ${roughDuration(nowMs - drift.checked_at)} ago`;
  const failed = drift?.error == null ? '' : `: ${printable(drift.error)}`;
  return [
    ['Program', `${printable(version, 40)}, ${since(started, nowMs)}, logs ${printable(level, 60)}`],
    ...(drift === null ? [] : [['Drift', `${checked}, ${drift.repaired} repaired${failed}`] as [string, string]]),
    ...(total > 0
      ? [['Orphaned', `${counted(total, 'document')}: ${named.join(', ')}${more}`] as [string, string]]
      : []),
  ];
}

function sourceLines({ source }: ClientAnswer): string[] {
  if (source === null) return [];
  const last = String(source.first + source.lines.length - 1).length;
  return [
    '',
    printable(`${source.file}:${source.line}`, 300),
    ...source.lines.map((line, index) => {
      const number = source.first + index;
      const spaced = line.replaceAll('\t', '  ');
      const indent = /^ */.exec(spaced)?.[0].slice(0, LONGEST_CELL) ?? '';
      const mark = number === source.line ? '>' : ' ';
      return `${mark} ${String(number).padStart(last)}  ${indent}${printable(spaced, 200)}`.trimEnd();
    }),
  ];
}

function topicLines({ topics }: ClientAnswer): string[] {
  const data = topics.filter(({ wanted }) => wanted !== null);
  if (data.length === 0) return [];
  const cell = (value: number | null): string => (value === null ? '?' : String(value));
  const rows = data.map(({ topic, wanted, held, behind, last }) => [
    printable(topic, LONGEST_CELL),
    ...[cell(wanted), cell(held), cell(behind)],
    printable(last ?? '-', LONGEST_CELL),
  ]);
  return ['', ...table([['TOPIC', 'WANTED', 'HELD', 'BEHIND', 'LAST UPDATE'], ...rows])];
}

function transactionLines(transactions: readonly ClientTransaction[], nowMs: number): string[] {
  if (transactions.length === 0) return [];
  const rows = transactions.map((one) => [
    `${roughDuration(nowMs - one.at)} ago`,
    one.kind === 'policy'
      ? `policy ${one.id === '' ? '?' : shortHash(one.id)}`
      : `data ${one.seq ?? shortName(one.id, 16)}`,
    printable(one.outcome, 20),
    one.took_ms === null ? '-' : plain(measured(one.took_ms / 1000)),
    one.error === null ? wroteText(one) : printable(one.error, 100),
  ]);
  return ['', ...table([['WHEN', 'TRANSACTION', 'OUTCOME', 'TOOK', 'WROTE, OR WHY NOT'], ...rows])];
}

function wroteText({ wrote, wrote_total: total }: ClientTransaction): string {
  if (total === 0) return '-';
  const named = wrote.slice(0, SHOWN_PATHS).map((path) => printable(path, LONGEST_CELL));
  return [...named, ...(total > named.length ? [`and ${total - named.length} more`] : [])].join(', ');
}
