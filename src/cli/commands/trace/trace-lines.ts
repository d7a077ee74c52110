import { errorLine } from '../../../fleet-rules/change-words.js';
import type { TraceAnswer, TraceClient, TraceConvergence } from '../../../wire/trace.js';
import { counted, isoTime, printable, roughDuration, shortName, table, wrapped } from '../../kit/text.js';

/** Characters of a client's name. */
const NAME_WIDTH = 40;
/** Topics and paths that the first line names. */
const NAMED = 3;
/** States in the order in which they need a person; others come last. */
const ORDER = ['refused', 'failing', 'not_heard', 'pending', 'away', 'replaced', 'unknown', 'applied'];
const WORDS: Readonly<Record<string, string>> = { not_heard: 'not heard', unknown: 'does not say' };
const CLOCKS = [
  'All times are by the clock of the server, from the first line above; SEEN is when the report of a client arrived.',
];

/** The text of a trace, wrapped at `width` characters where it is prose. */
export function traceLines(trace: TraceAnswer, width: number): string[] {
  const from = trace.stages[0]?.at;
  return [
    headline(trace),
    ...stageLines(trace),
    ...(trace.error === undefined ? [] : wrapped(`Refused: ${printable(errorLine(trace.error))}`, width, '  ', '  ')),
    ...trace.notes.flatMap((note) => wrapped(`Note: ${printable(note)}.`, width, '  ', '  ')),
    ...clientLines(trace, from, width),
  ];
}

function headline({ kind, id, seq, reason, publisher, topics, topics_total, paths, state }: TraceAnswer): string {
  if (kind === 'commit') return `Policy commit ${printable(id)}: ${printable(state ?? '')}`;
  const facts = [
    ...(reason == null || reason === '' ? [] : [`"${printable(reason, 80)}"`]),
    ...(publisher == null ? [] : [`by ${printable(publisher)}`]),
    ...(topics === undefined ? [] : [`topic${topics.length === 1 ? '' : 's'} ${some(topics, topics_total)}`]),
    ...(paths === undefined ? [] : [some(paths)]),
  ];
  return `Data update ${seq ?? '?'} (${printable(id, 80)}): ${facts.join(', ')}`;
}

function stageLines({ stages }: TraceAnswer): string[] {
  const [first] = stages;
  if (first === undefined) return [];
  const instances = new Set(stages.flatMap(({ instance }) => (instance === null ? [] : [instance])));
  return table(
    stages.map(({ stage, at, instance, subscribers }) => [
      `  ${printable(stage, 20)}`,
      clock(at),
      after(at, first.at),
      ...(instances.size > 1 ? [instance === null ? 'the log' : `instance ${instance.slice(0, 8)}`] : []),
      subscribers === undefined
        ? ''
        : `to ${counted(subscribers, 'connection')} of ${instances.size > 1 ? 'it' : 'the server'}`,
    ]),
  );
}

function clientLines(
  { clients, counts, convergence, now }: TraceAnswer,
  from: number | undefined,
  width: number,
): string[] {
  if (clients.length === 0) return ['', 'It concerns no client.'];
  const sorted = [...clients].sort((one, other) => rank(one) - rank(other));
  const [header = '', ...rows] = table([
    ['CLIENT', 'STATE', 'HEARD', 'FETCHED', 'APPLIED', 'SEEN'],
    ...sorted.map((client) => rowOf(client, from)),
  ]);
  const lines = sorted.flatMap((client, index) => [rows[index] ?? '', ...reasonLines(client, now, width)]);
  const order = [...new Set(['applied', ...ORDER, ...Object.keys(counts)])];
  const states = order.flatMap((state) =>
    counts[state] === undefined ? [] : [`${counts[state]} ${WORDS[state] ?? state}`],
  );
  const hasTimes = clients.some(
    ({ heard_at, applied_at, applied_seen_at: seen }) => (heard_at ?? applied_at ?? seen) !== null,
  );
  return [
    '',
    header,
    ...lines,
    '',
    `${counted(clients.length, 'client')}: ${states.join(', ')}.`,
    ...(convergence === null ? [] : wrapped(convergenceText(convergence), width, '')),
    ...(hasTimes ? CLOCKS.flatMap((line) => wrapped(line, width, '')) : []),
  ];
}

function rowOf(client: TraceClient, from: number | undefined): string[] {
  const since = (at: number | null): string => (at === null ? '-' : from === undefined ? clock(at) : after(at, from));
  return [
    shortName(client.client_id, NAME_WIDTH),
    WORDS[client.state] ?? printable(client.state, 20),
    since(client.heard_at),
    since(client.fetched_at),
    client.state === 'refused' && client.applied_at === null && client.refused_at !== null
      ? `no, ${since(client.refused_at)}`
      : since(client.applied_at),
    since(client.applied_seen_at ?? client.refused_seen_at),
  ];
}

function reasonLines(
  { state, reason, file, line, reported_at: reported, away_since: away }: TraceClient,
  now: number,
  width: number,
): string[] {
  if (state === 'applied' && reason === null) return [];
  const said = reason === null ? '' : printable(errorLine({ file, line, message: reason }));
  const silent =
    state === 'not_heard' && reported !== null ? `its last report came ${roughDuration(now - reported)} ago` : '';
  const gone = state === 'away' && away !== undefined ? `away since ${clock(away)}` : '';
  const text = [said, silent, gone].filter((part) => part !== '').join('; ');
  return text === '' ? [] : wrapped(text, width, '  ', '  ');
}

function convergenceText({ from, clients, first, half, p99, last }: TraceConvergence): string {
  const reached = (at: number | null): string => (at === null ? 'not yet' : after(at, from));
  const of = `Held by, of ${counted(clients, 'client')} that ${clients === 1 ? 'was' : 'were'} connected then`;
  if (clients === 0) return 'Nobody who reports was connected when it was announced.';
  if (first === null) {
    return `None of the ${counted(clients, 'client')} that ${clients === 1 ? 'was' : 'were'} connected then is known to hold it.`;
  }
  return `${of}: first ${reached(first)}, half ${reached(half)}, 99 % ${reached(p99)}, all ${reached(last)}.`;
}

function rank({ state }: TraceClient): number {
  const at = ORDER.indexOf(state);
  return at === -1 ? ORDER.length : at;
}

/** `total`: how many there are, if not all are given. */
function some(names: readonly string[], total = names.length): string {
  const more = total - NAMED;
  const shown = names.slice(0, NAMED).map((name) => printable(name, 80));
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}

/** `2026-11-21 10:00:00.000 UTC` */
function clock(at: number): string {
  return `${isoTime(at).replace('T', ' ').replace('Z', '')} UTC`;
}

/** `+12 ms`, `+1.2 s`, `+7 min`; negative where clocks differ by less than is known. */
function after(at: number, from: number): string {
  const ms = Math.round(at - from);
  const sign = ms < 0 ? '-' : '+';
  return Math.abs(ms) < 1000 ? `${sign}${Math.abs(ms)} ms` : `${sign}${roughDuration(Math.abs(ms))}`;
}
