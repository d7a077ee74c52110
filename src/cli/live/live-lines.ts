import { answerOf, type FleetAnswer, isFailing, type Piece } from '../../fleet-rules/answer.js';
import { progressOf } from '../../fleet-rules/progress.js';
import { policyStateOf, sinceOf, sortRows, WORST_FIRST } from '../../fleet-rules/rank.js';
import { DATA_WORDS, HEALTH_WORDS, POLICY_WORDS, type StateWord, stateWord } from '../../fleet-rules/state-words.js';
import { age, behind, clock, commit, count, integer, measured } from '../../fleet-rules/words.js';
import type { FleetRow, FleetSummary } from '../../wire/fleet.js';
import { plain, printable, shortName, table, wrapped } from '../kit/text.js';
import type { FleetState } from './fleet-state.js';
import { paint, type Style, type Word, wrapWords } from './paint.js';
import { refusingText } from './refusing.js';

/** How the fleet is shown. */
export interface LivePage {
  readonly width: number;
  readonly height: number;
  readonly style: Style;
  /** By the clock of the server. */
  readonly nowMs: number;
  /** Where the stream is cut: when the last event came. */
  readonly pastAt: number | null;
}

/** Signs of a bar: they differ in shape, not in colour alone. */
const SIGNS = {
  held: ['█', '#'],
  told: ['▒', '+'],
  notTold: ['░', '.'],
  away: ['-', '-'],
  unsaid: ['·', '?'],
  failing: ['!', '!'],
  refused: ['×', 'x'],
} as const;
type Sign = keyof typeof SIGNS;

/** Lower terminals have no room for the change beside clients. */
const ROOM_FOR_CHANGE = 18;
/** Longest name of a client. */
const LONGEST_NAME = 32;
/** Widest line of reasons and bars: longer ones are hard to follow. */
const MAX_WIDTH = 200;

/**
 * The lines of `status --watch` on a terminal: the answer, two bars, the change under way, the
 * worst clients.
 */
export function liveLines({ fleet, rows }: FleetState, page: LivePage): string[] {
  const { summary, source } = fleet;
  const refusing = refusingText(fleet.instances);
  const answer = answerOf({ summary, source, pastAt: page.pastAt, now: page.nowMs });
  const head = [
    ...answerLines(answer, page),
    '',
    ...barLines('Policy', summary, policyParts(summary.policy.counts), page),
    ...barLines('Data', summary, dataParts(summary.data.counts), page),
    ...(page.height < ROOM_FOR_CHANGE ? [] : changeLines(summary, page)),
    ...(summary.incomplete === null ? [] : wrapWords([{ text: printable(summary.incomplete), tone: 'warn' }], page)),
    ...(refusing === undefined ? [] : wrapWords([{ text: refusing, tone: 'bad' }], page)),
    ...sourceLines(source, page),
  ];
  return [...head, ...rowLines([...rows.values()], Math.max(3, page.height - head.length), page)];
}

function answerLines({ kind, head, rest }: FleetAnswer, page: LivePage): string[] {
  const tone = (piece: Piece, isHead: boolean): Word['tone'] => {
    if (piece.tone === 'red') return 'bad';
    return (isHead && kind !== 'past') || piece.tone === 'strong' ? 'strong' : undefined;
  };
  const pieces = [head, ...rest].flatMap((part, index) => [
    ...(index === 0 ? [] : [{ text: ' · ', tone: undefined }]),
    ...part.map((piece) => ({ text: piece.text, tone: tone(piece, index === 0) })),
  ]);
  return wrapWords(pieces, page);
}

interface Part {
  readonly sign: Sign;
  readonly count: number;
  readonly word: StateWord;
  readonly isRight: boolean;
}

function part(
  sign: Sign,
  words: Readonly<Record<string, StateWord>>,
  counts: FleetSummary['health'],
  state: string,
): Part {
  const isRight = sign === 'away' || sign === 'unsaid' || sign === 'failing' || sign === 'refused';
  return { sign, count: counts[state] ?? 0, word: stateWord(words, state), isRight };
}

function policyParts(counts: FleetSummary['health']): Part[] {
  const of = (sign: Sign, state: string): Part => part(sign, POLICY_WORDS, counts, state);
  return [
    ...[of('held', 'acknowledged'), of('told', 'told'), of('notTold', 'not_told')],
    ...[of('away', 'away'), of('unsaid', 'does_not_say'), of('refused', 'refused')],
  ];
}

function dataParts(counts: FleetSummary['health']): Part[] {
  const of = (sign: Sign, state: string): Part => part(sign, DATA_WORDS, counts, state);
  return [
    ...[of('held', 'at_head'), of('told', 'behind')],
    ...[of('away', 'away'), of('unsaid', 'does_not_say'), of('failing', 'failing'), of('refused', 'blocked')],
  ];
}

const LABEL = 8;

/** A bar over the width of the terminal, and what its signs mean. */
function barLines(name: string, { total }: FleetSummary, parts: readonly Part[], page: LivePage): string[] {
  const concerned = parts.reduce((sum, one) => sum + one.count, 0);
  if (total === 0 || concerned === 0) return [];
  const { style } = page;
  const signOf = (sign: Sign): string => SIGNS[sign][style.isUnicode ? 0 : 1];
  const bars = (some: readonly Part[]): BarPart[] =>
    some.map(({ sign, count: clients }) => ({ count: clients, sign: signOf(sign) }));
  const width = Math.min(page.width, MAX_WIDTH) - LABEL;
  const bar = barText(bars(parts.filter(({ isRight }) => !isRight)), bars(parts.filter(({ isRight }) => isRight)), {
    total: concerned,
    width,
    track: ' ',
  });
  const legend = parts
    .filter((one) => one.count > 0)
    .flatMap(({ sign, count: clients, word }, index): Word[] => [
      ...(index === 0 ? [] : [{ text: '   ' }]),
      { text: `${signOf(sign)} ${integer(clients)} ${word.word.toLowerCase()}`, tone: toneOf(word) },
    ]);
  const lines = wrapWords(legend, { ...page, width });
  return [`${name.padEnd(LABEL)}${bar}`, ...lines.map((line) => `${' '.repeat(LABEL)}${line}`)];
}

function toneOf({ tone }: StateWord): Word['tone'] {
  if (tone === 'bad' || tone === 'warn') return tone;
  return undefined;
}

/** The change that is named, and how long it took. */
function changeLines({ under_way: change, others_held_up: others = 0 }: FleetSummary, page: LivePage): string[] {
  if (change === null) return [];
  const { kind, seconds, marks } = progressOf(change, page.pastAt ?? page.nowMs);
  const name = change.kind === 'policy' ? `Commit ${commit(change.id)}` : `Update ${integer(Number(change.id))}`;
  const title = [printable(change.title, 80), change.by === null ? '' : `by ${printable(change.by, 40)}`].filter(
    Boolean,
  );
  const state = {
    running: `under way for ${measured(seconds)}`,
    complete: seconds === null ? 'everywhere' : `everywhere in ${measured(seconds)}`,
    held_up: 'held up',
    silent: 'nobody was there who says so',
  }[kind];
  const isRunning = kind === 'running';
  const times = marks
    .filter(({ seconds: at }) => at !== null || isRunning)
    .map(({ name: mark, seconds: at }) => `${mark.toLowerCase()} ${at === null ? 'not yet' : measured(at)}`);
  const isKnown = change.convergence !== null && change.convergence.clients > 0 && times.length > 0;
  const more = others > 0 ? [`and ${count(others, 'other')} held up`] : [];
  const parts = [...title, `${state}${isKnown ? `: ${times.join(', ')}` : ''}`, ...more];
  return ['', ...wrapWords([{ text: `${name}: `, tone: 'strong' }, { text: parts.join(', ') }], page)];
}

function sourceLines(source: FleetState['fleet']['source'], page: LivePage): string[] {
  if (source === null || !isFailing(source)) return [];
  const { error, code } = source;
  const text = printable(`Policy source: ${error ?? 'failing'}${code === undefined ? '' : ` [${code}]`}`);
  return ['', ...wrapWords([{ text, tone: 'bad' }], page)];
}

const HEADS = ['CLIENT', 'POLICY', 'DATA', 'HEALTH', 'SINCE'];

/**
 * The worst clients, as many as fit; errors stand in a column of their own, or below their clients
 * where that is too wide.
 */
function rowLines(rows: readonly FleetRow[], height: number, page: LivePage): string[] {
  if (rows.length === 0) return [];
  const room = Math.max(1, height - 2); // an empty line, and the heads
  const worst = sortRows(rows, WORST_FIRST).slice(0, room);
  const [head = [], ...blocks] = blocksOf(worst, page);
  const shown: string[][] = [];
  let left = room;
  for (const [index, block] of blocks.entries()) {
    // The last line is for the number of the others.
    const free = left - (index === rows.length - 1 ? 0 : 1);
    if (free < (index === 0 ? 1 : block.length)) break;
    const lines = block.slice(0, free);
    shown.push(lines.map((line) => paint([{ text: line, tone: rowTone(worst[index]) }], page.style)));
    left -= lines.length;
  }
  const others = rows.length - shown.length;
  return [
    '',
    ...head.map((line) => paint([{ text: line, tone: 'quiet' }], page.style)),
    ...shown.flat(),
    ...(others > 0 ? [plain(`and ${count(others, 'more client')}, the worst stand first`)] : []),
  ];
}

/** The lines of the heads, then those of each client. */
function blocksOf(rows: readonly FleetRow[], page: LivePage): string[][] {
  const cells = rows.map((row) => cellsOf(row, page.pastAt ?? page.nowMs));
  const errors = rows.map(errorOf);
  const wide = table([[...HEADS, 'ERROR'], ...cells.map((some, index) => [...some, errors[index] ?? ''])]);
  if (wide.every((line) => line.length <= page.width)) return wide.map((line) => [line]);
  return table([HEADS, ...cells]).map((line, index) => {
    const error = errors[index - 1] ?? '';
    const below = error === '' ? [] : wrapped(error, page.width, '    ', '  ');
    return [line.slice(0, page.width), ...below];
  });
}

function errorOf({ error }: FleetRow): string {
  if (error === null) return '';
  return plain(printable([error.place, error.text].filter(Boolean).join(': '), 300));
}

function cellsOf(row: FleetRow, nowMs: number): string[] {
  const { data, health } = row;
  const state = policyStateOf(row);
  const distance = state === 'told' || state === 'not_told' || state === 'refused' ? (row.policy.behind ?? 0) : 0;
  const policy = `${stateWord(POLICY_WORDS, state).word}${distance > 0 ? `, ${behind(distance)}` : ''}`;
  // Of one that has been through all updates those fail that are missing.
  const isBehind = data.state === 'failing' ? (data.at ?? 0) < data.newest : ['behind', 'blocked'].includes(data.state);
  const lag = isBehind && (data.behind ?? 0) > 0 ? `, ${behind(data.behind, { atLeast: data.at_least })}` : '';
  return [
    shortName(row.id, LONGEST_NAME),
    policy,
    `${stateWord(DATA_WORDS, data.state).word}${lag}`,
    stateWord(HEALTH_WORDS, health.state).word,
    age(sinceOf(row), nowMs),
  ].map(plain);
}

function rowTone(row: FleetRow | undefined): Word['tone'] {
  if (row === undefined) return undefined;
  if (
    row.policy.state === 'refused' ||
    ['blocked', 'failing'].includes(row.data.state) ||
    row.health.state === 'unhealthy'
  )
    return 'bad';
  if (!row.connected || row.health.state === 'not_ready') return 'warn';
  return undefined;
}

/** The line above: what is shown, of which environment, and since when it is not current. */
export function titleLine(address: string, { pastAt, nowMs, width }: LivePage, environment?: string): string {
  const text =
    pastAt === null
      ? `Live from ${address}, ${clock(nowMs)} UTC; Ctrl-C ends.`
      : `The server was lost at ${clock(pastAt)} UTC and is tried again; Ctrl-C ends.`;
  return (environment === undefined ? text : `${printable(environment)} · ${text}`).slice(0, width);
}

/** A part of a bar. */
interface BarPart {
  readonly count: number;
  readonly sign: string;
}

/**
 * A bar of this many signs: `left` from the left end, `right` at the right end, and `track` between
 * them. What is there has one sign at least, and nothing is shown as whole that is not.
 */
export function barText(
  left: readonly BarPart[],
  right: readonly BarPart[],
  { total, width, track }: { total: number; width: number; track: string },
): string {
  const parts = [...left, ...right].filter(({ count }) => count > 0);
  if (total === 0 || parts.length === 0 || width < parts.length) return track.repeat(Math.max(0, width));
  const lengths = new Map(parts.map((part) => [part, Math.max(1, Math.floor((part.count / total) * width))]));
  const sum = (): number => [...lengths.values()].reduce((all, one) => all + one, 0);
  // Small parts that were made visible take from the largest one.
  while (sum() > width) shrinkLargest(lengths);
  const covered = parts.reduce((all, { count }) => all + count, 0);
  const [first] = parts;
  if (covered >= total && first !== undefined) lengths.set(first, (lengths.get(first) ?? 0) + width - sum());
  const draw = (some: readonly BarPart[]): string =>
    some.map((part) => part.sign.repeat(lengths.get(part) ?? 0)).join('');
  return `${draw(left)}${track.repeat(width - sum())}${draw(right)}`;
}

function shrinkLargest(lengths: Map<BarPart, number>): void {
  const [largest] = [...lengths].sort(([, a], [, b]) => b - a);
  if (largest !== undefined) lengths.set(largest[0], largest[1] - 1);
}
