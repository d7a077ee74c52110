import type { SourceView } from '../wire/clients.js';
import type { FleetSnapshot, FleetSummary } from '../wire/fleet.js';
import { behind, clock, commit, count, integer, moment, NBSP } from './words.js';

/** A piece of the sentence. */
export interface Piece {
  readonly text: string;
  /** `red` and `strong` stand out, the rest is quiet; `code` is a name of a machine. */
  readonly tone?: 'red' | 'strong' | 'code';
}

/** The sentence that answers "is everyone on the new policy?". */
export interface FleetAnswer {
  /**
   * `asking`: nothing is known yet. `yes`: everyone who says what it holds holds it. `not_yet`:
   * some are under way. `no`: nothing moves any more. `past`: the stream is cut, so it says what
   * was. `unsure`: all hold it, but there may be other clients, or something newer. `empty`: nobody
   * is there. `none`: there is nothing to hold, or nobody says what it holds.
   */
  readonly kind: 'asking' | 'yes' | 'not_yet' | 'no' | 'past' | 'unsure' | 'empty' | 'none';
  /** What stands first, in bold. */
  readonly head: readonly Piece[];
  /** What follows, a dot before each. */
  readonly rest: readonly (readonly Piece[])[];
}

/** What the sentence is made of. */
export interface AnswerFacts {
  /** undefined: no snapshot has arrived yet. */
  readonly summary: FleetSummary | undefined;
  readonly source: FleetSnapshot['source'];
  /** The time of what is shown, where the stream is cut; null: it is how things are now. */
  readonly pastAt: number | null;
  /** By the clock of the server: a time of another day has its date. */
  readonly now: number;
}

/** The answer in its pieces. */
export function answerOf({ summary, source, pastAt, now }: AnswerFacts): FleetAnswer {
  if (summary === undefined) return { kind: 'asking', head: [{ text: 'Asking the server who holds what' }], rest: [] };
  const past = pastAt === null ? '' : `At ${clock(pastAt)}, `;
  if (summary.total === 0) return { kind: 'empty', head: [{ text: emptyText(summary, past) }], rest: [] };
  const { head: served, counts } = summary.policy;
  const told = policyTally(counts);
  if (served !== null && told.concerned > 0) {
    const held = { name: commit(served), isCode: true, but: unserved(source, past !== '', now) };
    return { ...holding(summary, told, held, past), rest: [...policyRest(told), ...dataParts(summary)] };
  }
  if (served === null && source !== null && source.state !== 'none') {
    const text = past === '' ? 'No policy is served yet' : `${past}no policy was served yet`;
    return { kind: 'none', head: [{ text }], rest: dataParts(summary) };
  }
  return dataAnswer(summary, past);
}

/** The sentence as plain text, with `·` between its parts. */
export function fleetAnswerText({ head, rest }: FleetAnswer): string {
  return [head, ...rest].map((pieces) => pieces.map(({ text }) => text).join('')).join(' · ');
}

/**
 * Clients that hold it, of those that the sentence counts, and what: `61/122 5b1f0c2`; empty:
 * nothing is known.
 */
export function shortFleetAnswer(summary: FleetSummary | undefined): string {
  if (summary === undefined || summary.total === 0) return '';
  const { head, counts } = summary.policy;
  const policy = policyTally(counts);
  if (head !== null && policy.concerned > 0) return `${shareOf(policy)}${commit(head)}`;
  const data = dataTally(summary.data.counts);
  return data.concerned > 0 ? `${shareOf(data)}at ${integer(summary.data.head)}` : '';
}

/** Why what is served is, or may be, not the newest, in a word or two; empty: it is the newest. */
export function shortDoubt(source: FleetSnapshot['source']): string {
  if (!source?.head) return '';
  if (source.refused !== undefined) return 'refused';
  if (isFailing(source)) return 'source fails';
  if (source.doubted !== undefined) return 'in doubt';
  return source.awaited === undefined ? '' : 'not here yet';
}

/**
 * Whether the last look at the source failed, also since the start of the server, or for a reader
 * who is not told why.
 */
export function isFailing({ state, error, failing_since: since }: SourceView): boolean {
  return state === 'failing' || error != null || since !== undefined;
}

/**
 * Clients by how they stand to one thing, policy or data, without those whom it does not concern.
 */
interface Tally {
  readonly concerned: number;
  readonly holds: number;
  readonly moving: number;
  readonly refused: number;
  /** What they take fails, and is tried again. */
  readonly failing: number;
  readonly away: number;
  readonly unsaid: number;
  /** It does not concern them. */
  readonly apart: number;
}

type Counts = Readonly<Record<string, number>>;

function policyTally(counts: Counts): Tally {
  const { acknowledged: holds = 0, told = 0, not_told = 0, refused = 0, away = 0, does_not_say: unsaid = 0 } = counts;
  const concerned = holds + told + not_told + refused + away + unsaid;
  return { concerned, holds, moving: told + not_told, refused, failing: 0, away, unsaid, apart: counts.none ?? 0 };
}

function dataTally(counts: Counts): Tally {
  const { at_head: holds = 0, behind: moving = 0, failing = 0, blocked: refused = 0 } = counts;
  const { away = 0, does_not_say: unsaid = 0 } = counts;
  return {
    concerned: holds + moving + refused + failing + away + unsaid,
    holds,
    moving,
    refused,
    failing,
    away,
    unsaid,
    apart: counts.none ?? 0,
  };
}

/** Whether everyone who says what it holds holds it. */
function isEverywhere({ concerned, holds, unsaid }: Tally): boolean {
  return holds > 0 && holds === concerned - unsaid;
}

/** `61/122 `; empty: nobody says what it holds. */
function shareOf(tally: Tally): string {
  const { concerned, holds, unsaid } = tally;
  if (concerned === unsaid) return '';
  return `${holds}/${isEverywhere(tally) ? holds : concerned} `;
}

/** What is held: a commit, or a place in the log. */
interface Held {
  readonly name: string;
  readonly isCode: boolean;
  /** What is newer; empty: nothing. */
  readonly but: readonly Piece[];
}

/** ", but 5396ef6 is not served", ", but the source has failed since 17:01:07 UTC". */
function unserved(source: FleetSnapshot['source'], isPast: boolean, now: number): Piece[] {
  if (source?.refused !== undefined) {
    const [name, verb] = [commit(source.refused), isPast ? 'was' : 'is'];
    return [{ text: ', but ' }, { text: name, tone: 'code' }, { text: ` ${verb} not served` }];
  }
  if (source === null || !isFailing(source)) return doubtOf(source, isPast);
  const since = source.failing_since === undefined ? '' : ` since ${moment(Date.parse(source.failing_since), now)}`;
  return [{ text: `, but the source ${isPast ? 'had' : 'has'} failed${since}` }];
}

/**
 * ", but the source shows 5396ef6": an older commit, or one that goes back. The instances wait
 * before they agree on it.
 */
function doubtOf(source: FleetSnapshot['source'], isPast: boolean): Piece[] {
  if (source?.doubted === undefined) return awaitedOf(source, isPast);
  return [{ text: `, but the source ${isPast ? 'showed' : 'shows'} ` }, { text: commit(source.doubted), tone: 'code' }];
}

/** ", but 5396ef6 was pushed": a webhook named it, and the source does not show it. */
function awaitedOf(source: FleetSnapshot['source'], isPast: boolean): Piece[] {
  if (source?.awaited === undefined) return [];
  const text = isPast ? ' had been pushed' : ' was pushed';
  return [{ text: ', but ' }, { text: commit(source.awaited.commit), tone: 'code' }, { text }];
}

/**
 * "Not yet: 61 of 122 hold 5b1f0c2". Who never says what it holds keeps no answer from being yes;
 * what is not served does.
 */
function holding(summary: FleetSummary, tally: Tally, held: Held, past: string): Pick<FleetAnswer, 'kind' | 'head'> {
  const { concerned, holds, moving, unsaid } = tally;
  const isPast = past !== '';
  const thing: Piece = held.isCode ? { text: held.name, tone: 'code' } : { text: held.name };
  const answer = (now: FleetAnswer['kind'], text: string): Pick<FleetAnswer, 'kind' | 'head'> => ({
    kind: isPast ? 'past' : now,
    head: [{ text: `${text} ` }, thing, ...held.but],
  });
  const verb = (clients: number): string => (isPast ? 'held' : clients === 1 ? 'holds' : 'hold');
  const saying = concerned - unsaid;
  if (saying === 0) {
    return answer('none', isPast ? `${past}no client said whether it held` : 'No client says whether it holds');
  }
  if (holds === saying) {
    const isSure = summary.incomplete === null;
    const isNewest = held.but.length === 0;
    const lead = isPast ? past : !isSure ? 'Of those that are known, ' : isNewest ? 'Yes: ' : '';
    const text = `${lead}${everyone(saying, unsaid, summary.limited)} ${verb(saying)}`;
    return answer(isSure && isNewest ? 'yes' : 'unsure', capital(text));
  }
  const lead = isPast ? past : moving > 0 ? 'Not yet: ' : 'No: ';
  const all = summary.limited ? `the ${integer(concerned)} that you see` : integer(concerned);
  return answer(moving > 0 ? 'not_yet' : 'no', `${lead}${integer(holds)} of ${all} ${verb(holds)}`);
}

/** "all 122", "all 121 that report", "the one client that you see". */
function everyone(clients: number, unsaid: number, isLimited: boolean): string {
  const isOne = clients === 1;
  const saying = isOne ? ' that reports' : ' that report';
  const which = unsaid > 0 ? saying : isLimited ? ' that you see' : '';
  return isOne ? `the one client${which}` : `all ${integer(clients)}${which}`;
}

function policyRest({ refused, away, unsaid, apart }: Tally): Piece[][] {
  return [
    ...redPart(refused, 'refused'),
    ...(away > 0 ? [[{ text: `${integer(away)}${NBSP}away`, tone: 'strong' as const }]] : []),
    ...(unsaid > 0 ? [[{ text: unsaidText(unsaid) }]] : []),
    ...(apart > 0 ? [[{ text: `${integer(apart)}${NBSP}${apart === 1 ? 'takes' : 'take'} no policy` }]] : []),
  ];
}

function unsaidText(clients: number): string {
  return `${integer(clients)}${NBSP}${clients === 1 ? 'does' : 'do'}${NBSP}not${NBSP}say`;
}

/** "data at 4,812, slowest 3 behind", "3 failing". */
function dataParts(summary: FleetSummary): Piece[][] {
  return [dataPart(summary), ...redPart(dataTally(summary.data.counts).failing, 'failing')];
}

function redPart(clients: number, word: string): Piece[][] {
  return clients > 0 ? [[{ text: `${integer(clients)}${NBSP}${word}`, tone: 'red' }]] : [];
}

function dataPart({ data }: FleetSummary): Piece[] {
  if (data.head === 0) return [{ text: 'no data update yet' }];
  const tally = dataTally(data.counts);
  const { concerned, holds, moving, refused, failing, away } = tally;
  const at = `data at ${integer(data.head)}`;
  if (concerned === 0) return [{ text: at }];
  const slowest = slowestText(data, tally);
  if (slowest !== '') return [{ text: `${at}, ${slowest}` }];
  if (moving + refused > 0) return [{ text: `${at}, ${count(moving + refused, 'client')} behind` }];
  if (holds === 0 || failing > 0) return [{ text: at }];
  return [{ text: away > 0 ? `${at}, all that are connected have it` : `${at}, all of it everywhere` }];
}

/** "slowest 3 behind"; empty: nobody is. Those at which an update fails are told apart. */
function slowestText({ slowest_behind: most, at_least: atLeast }: FleetSummary['data'], tally: Tally): string {
  const isOfFailing = tally.moving === 0 && tally.failing > 0;
  return most > 0 && !isOfFailing ? `slowest ${behind(most, { atLeast })}` : '';
}

/** Of a fleet that takes data only. */
function dataAnswer(summary: FleetSummary, past: string): FleetAnswer {
  const { data } = summary;
  const tally = dataTally(data.counts);
  if (tally.concerned === 0 || data.head === 0) {
    const text = data.head === 0 ? 'neither policy nor data has been published' : 'nobody takes policy or data';
    const at = capital(past + text);
    return { kind: 'none', head: [{ text: at }], rest: [[{ text: count(summary.total, 'client') }]] };
  }
  const slowest = slowestText(data, tally);
  const answer = holding(summary, tally, { name: `data up to ${integer(data.head)}`, isCode: false, but: [] }, past);
  const failed = [...redPart(tally.failing, 'failing'), ...redPart(tally.refused, 'blocked')];
  const others = policyRest({ ...tally, refused: 0, apart: 0 });
  return {
    ...answer,
    rest: [...failed, ...others, ...(slowest === '' ? [] : [[{ text: slowest }]]), [{ text: 'no policy is served' }]],
  };
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function emptyText(summary: FleetSummary, past: string): string {
  if (past !== '') return `${past}no client was connected`;
  return summary.limited ? 'No client that you may see has connected yet' : 'No client has connected yet';
}

/**
 * What those hear who listen to the page instead of looking at it: that a commit is out, that half
 * hold it, that nothing moves any more. undefined: nothing that is worth a sentence has happened
 * between the two.
 */
export function announcement(
  before: FleetSummary | undefined,
  after: FleetSummary,
  { source, now }: { readonly source: FleetSnapshot['source']; readonly now: number },
): string | undefined {
  const { head } = after.policy;
  if (before === undefined || head === null) return undefined;
  const [were, are] = [progress(before), progress(after)];
  const isNew = before.policy.head !== head;
  if (are.moving === 0) {
    const isSettled = isNew || were.moving > 0;
    return isSettled ? fleetAnswerText(answerOf({ summary: after, source, pastAt: null, now })) : undefined;
  }
  if (isNew) return `Commit ${commit(head)} is served: ${integer(are.holds)} of ${integer(are.all)} hold it`;
  const isHalf = (one: Progress): boolean => one.holds * 2 >= one.all;
  return isHalf(are) && !isHalf(were)
    ? `Half hold ${commit(head)}: ${integer(are.holds)} of ${integer(are.all)}`
    : undefined;
}

interface Progress {
  readonly all: number;
  readonly holds: number;
  readonly moving: number;
}

function progress({ policy: { counts } }: FleetSummary): Progress {
  const all = Object.values(counts).reduce((sum, clients) => sum + clients, 0) - (counts.none ?? 0);
  return { all, holds: counts.acknowledged ?? 0, moving: (counts.told ?? 0) + (counts.not_told ?? 0) };
}
