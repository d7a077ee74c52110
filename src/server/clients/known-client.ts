import { isDeepStrictEqual } from 'node:util';
import type { PeerInfo } from '../../pubsub/peer.js';
import { type Labels, NO_LABELS } from '../../wire/labels.js';
import { type AskKind, appliedUpTo, type FailureKind, type Position, type SessionReport } from '../../wire/session.js';
import { ALL_TOPICS } from '../../wire/topics.js';

/** The identity of a client. */
export interface ClientIdentity {
  readonly kind: 'session' | 'plain';
  /** Subject of its token; null where there is none. */
  readonly subject: string | null;
  /** The id that it claims. */
  readonly clientId: string;
  /** Its connection, if a newer one of the same subject and id is the client. */
  readonly twin?: string | undefined;
}

/** The key of a client, with its subject: the same id under another is another client. */
export function clientKey({ kind, subject, clientId, twin }: ClientIdentity): string {
  return JSON.stringify([kind, subject, clientId, ...(twin === undefined ? [] : [twin])]);
}

/** A subscription in log positions, since clocks differ: after `from`, up to `until`; null: now. */
export interface Span {
  readonly from: number;
  readonly until: number | null;
  /** Of a connection that the client has left, by the clock of its instance. */
  readonly fromMs?: number | undefined;
  readonly untilMs?: number | undefined;
}

/** The last report of a client, without its id and position. */
export type ReportedState = Omit<SessionReport, 'client_id' | 'position' | 'steps'>;

/** A client as its instance knows, or knew, it. Plain data, sent to other instances. */
export interface KnownClient extends ClientIdentity {
  /** {@link clientKey} of its identity. */
  readonly key: string;
  /** `plain`: an OPAL client, or another subscriber without a session. */
  readonly kind: 'session' | 'plain';
  /** An older connection of a client that reconnected, while a ping tells whether it is alive. */
  readonly isDoubtful?: boolean | undefined;
  /** When its subject first used its id. */
  readonly claimedMs: number;
  /** The server instance that knows it. */
  readonly instance: string;
  readonly address: string;
  readonly topics: readonly string[];
  /** Number of topics that are left out of `topics`. */
  readonly topicsLeftOut: number;
  /** What it says it is; nothing proves it. */
  readonly labels: Labels;
  /** What it can be asked over its socket; none: an OPAL client, or one of an older version. */
  readonly asks: readonly AskKind[];
  /** The newest last. */
  readonly spans: readonly Span[];
  readonly connectedAtMs: number;
  /** Null: it is connected. */
  readonly awaySinceMs: number | null;
  /** Why it is away; undefined: that is not known. */
  readonly awayReason?: string | undefined;
  /** It ended in order, and is not away: remembered only against older views of other instances. */
  readonly saidGoodbye?: true | undefined;
  /** When it opened its last connection, by its own clock; undefined: it does not say. */
  readonly openedAtMs?: number | undefined;
  /** Null: it holds nothing of this log, or has not reported. */
  readonly position: Position | null;
  readonly state: ReportedState | null;
  readonly reportedAtMs: number | null;
  /** At another instance, and reports all the time: it did after this, see {@link reportedAtMs}. */
  readonly heard?: { readonly afterMs: number } | undefined;
  /** The last failure, even if it is resolved. */
  readonly lastError: {
    readonly path: string;
    readonly error: string;
    readonly kind?: string | undefined;
    readonly atMs: number;
  } | null;
}

/** Shared by all clients that cannot be asked. */
export const NO_ASKS: readonly AskKind[] = Object.freeze([]);

/** Creates a client that has just connected. */
export function newClient(
  identity: ClientIdentity,
  { host, port, topics, connectedAtMs }: Pick<PeerInfo, 'host' | 'port' | 'topics' | 'connectedAtMs'>,
  { instance, claimedMs, spans }: Pick<KnownClient, 'instance' | 'claimedMs' | 'spans'>,
): KnownClient {
  return {
    ...identity,
    key: clientKey(identity),
    ...{ instance, claimedMs, spans, topics, connectedAtMs },
    address: `${host}:${port}`,
    topicsLeftOut: 0,
    labels: NO_LABELS,
    asks: NO_ASKS,
    awaySinceMs: null,
    position: null,
    state: null,
    reportedAtMs: null,
    lastError: null,
  };
}

/** Maximum spans per client. */
const MAX_SPANS = 8;

/** Adds a span and drops old ones. */
export function withSpan(spans: readonly Span[], span: Span): readonly Span[] {
  return [...spans.slice(1 - MAX_SPANS), span];
}

/** Whether a client was subscribed when the record at `seq` was appended. */
export function wasThere(spans: readonly Span[], seq: number): boolean {
  return spans.some(({ from, until }) => from < seq && (until === null || seq <= until));
}

/** Notes the times of the connection of a client that is over, or has a successor. */
export function withTimes(
  { spans, connectedAtMs }: Pick<KnownClient, 'spans' | 'connectedAtMs'>,
  untilMs: number,
): readonly Span[] {
  return spans.map((span) => (span.until === null ? { fromMs: connectedAtMs, untilMs, ...span } : span));
}

/** Whether a client was connected at a time; never where the time is not known. */
export function wasConnected(client: KnownClient, atMs: number | undefined): boolean {
  if (atMs === undefined) return false;
  const { connectedAtMs, awaySinceMs, spans } = client;
  if (connectedAtMs <= atMs && (awaySinceMs === null || awaySinceMs >= atMs)) return true;
  return spans.some(
    ({ fromMs, untilMs }) => fromMs !== undefined && untilMs !== undefined && fromMs <= atMs && atMs <= untilMs,
  );
}

/**
 * The topics of a publication: a set if many, since each client is compared with up to a million.
 */
export type PublishedTopics = readonly string[] | ReadonlySet<string>;

/** Whether a subscriber of some topics receives a publication on others. */
export function concerns(subscribed: readonly string[], published: PublishedTopics): boolean {
  const isPublished = (topic: string): boolean =>
    'has' in published ? published.has(topic) : published.includes(topic);
  return subscribed.some((topic) => topic === ALL_TOPICS || isPublished(topic));
}

/** The same for a client; true if some of its topics are left out. */
export function isConcerned({ topics, topicsLeftOut }: KnownClient, published: PublishedTopics): boolean {
  return topicsLeftOut > 0 || concerns(topics, published);
}

/**
 * Returns the better of two views of a client: the one where it is connected, or was last. Its own
 * clock tells which of its connections is the newest: those of instances may differ.
 */
export function preferred(a: KnownClient, b: KnownClient): KnownClient {
  if ((a.awaySinceMs === null) !== (b.awaySinceMs === null)) return a.awaySinceMs === null ? a : b;
  const [first, second] = [a.openedAtMs, b.openedAtMs];
  if (first !== undefined && second !== undefined && first !== second) return second > first ? b : a;
  return lastSeenMs(b) > lastSeenMs(a) ? b : a;
}

function lastSeenMs({ connectedAtMs, awaySinceMs }: KnownClient): number {
  return awaySinceMs ?? connectedAtMs;
}

/** When a client reported last, as far as is known. */
export function reportedAtOf({ reportedAtMs, heard }: Pick<KnownClient, 'reportedAtMs' | 'heard'>): number | null {
  return heard === undefined || reportedAtMs === null ? reportedAtMs : Math.max(reportedAtMs, heard.afterMs);
}

/** What is remembered of a client that said goodbye. */
export function goodbyeForm({ awayReason: _, ...client }: KnownClient): KnownClient {
  const nothing = { topics: [], topicsLeftOut: 0, spans: [], position: null, state: null, reportedAtMs: null };
  return { ...client, ...nothing, lastError: null, labels: NO_LABELS, asks: NO_ASKS, saidGoodbye: true };
}

/** Whether a client was known already when the record at `seq` was appended, connected or away. */
export function wasKnown(spans: readonly Span[], seq: number): boolean {
  return spans.some(({ from }) => from < seq);
}

/** What is told of a client beside position and state, without what each report changes. */
const TOLD: Readonly<
  Record<Exclude<keyof KnownClient, 'key' | 'position' | 'state' | 'reportedAtMs' | 'heard'>, true>
> = {
  ...{ kind: true, subject: true, clientId: true, twin: true, isDoubtful: true, claimedMs: true, instance: true },
  ...{ address: true, topics: true, topicsLeftOut: true, labels: true, asks: true, spans: true, connectedAtMs: true },
  ...{ awaySinceMs: true, awayReason: true, saidGoodbye: true, openedAtMs: true, lastError: true },
};
const TOLD_FIELDS = Object.keys(TOLD) as (keyof typeof TOLD)[];

/** Whether both views say the same, apart from the position and the time of the report. */
export function isSameClient(a: KnownClient, b: KnownClient): boolean {
  if (a === b) return true;
  if (!TOLD_FIELDS.every((name) => a[name] === b[name] || isDeepStrictEqual(a[name], b[name]))) return false;
  if (a.state === b.state) return true;
  return a.state !== null && b.state !== null && isSameState(a.state, b.state);
}

/** Whether two reports say the same, whenever they say it. */
function isSameState(a: ReportedState, b: ReportedState): boolean {
  const [one, other] = [a as Readonly<Record<string, unknown>>, b as Readonly<Record<string, unknown>>];
  for (const name in { ...one, ...other }) {
    if (name !== 'at' && one[name] !== other[name] && !isDeepStrictEqual(one[name], other[name])) return false;
  }
  return true;
}

/** Whether two positions say the same. */
export function isSamePosition(a: Position | null, b: Position | null): boolean {
  if (a === b) return true;
  if (a === null || b === null || a.applied_through !== b.applied_through || a.epoch !== b.epoch) return false;
  return isSameList(a.applied_beyond, b.applied_beyond) && isSameList(a.unresolved, b.unresolved);
}

function isSameList(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((each, index) => each === b[index]);
}

/** Limits of a client that is away: characters of topics, failures, text; seqs of a list. */
const AWAY = { topicCharacters: 2048, failing: 2, text: 200, seqs: 50 };

/** Returns the reduced form of a client that is away: there may be thousands. */
export function smallForm(client: KnownClient): KnownClient {
  const topics: string[] = [];
  let left = AWAY.topicCharacters;
  for (const topic of client.topics) {
    left -= topic.length;
    if (left < 0) break;
    topics.push(topic);
  }
  const { state, position, lastError } = client;
  return {
    ...client,
    topics,
    topicsLeftOut: client.topicsLeftOut + client.topics.length - topics.length,
    position: position === null ? null : shortPosition(position, AWAY.seqs),
    state: state === null ? null : smallState(state),
    lastError: lastError === null ? null : shortFailure(lastError),
  };
}

function smallState(state: ReportedState): ReportedState {
  const { engine, policy, failing, blocked } = state;
  const error = policy?.error ?? null;
  return {
    ...state,
    engine: { ...engine, kind: cut(engine.kind), version: cut(engine.version), error: cut(engine.error) },
    policy: policy && { ...policy, error: error && { ...error, message: cut(error.message), file: cut(error.file) } },
    failing: failing.slice(0, AWAY.failing).map(shortFailure),
    failing_total: state.failing_total ?? failing.length,
    blocked: blocked.slice(0, AWAY.seqs),
  };
}

function shortFailure<F extends { readonly path: string; readonly error: string }>(failure: F): F {
  return { ...failure, path: cut(failure.path), error: cut(failure.error) };
}

/** Copies the text: a slice would keep the whole string in memory. */
function cut<T extends string | null | undefined>(text: T): T {
  if (typeof text !== 'string' || text.length <= AWAY.text) return text;
  return Buffer.from(text.slice(0, AWAY.text)).toString() as T;
}

/** Cuts lists that are too long, so that the position claims less than is applied, never more. */
export function shortPosition(at: Position, maxSeqs: number): Position {
  if (at.unresolved.length <= maxSeqs) return { ...at, applied_beyond: at.applied_beyond.slice(0, maxSeqs) };
  return { epoch: at.epoch, applied_through: appliedUpTo(at), applied_beyond: [], unresolved: [] };
}

/** For limited callers: the full text of a failure may quote the client's network. */
const KIND_TEXTS: Readonly<Record<FailureKind, string>> = {
  source: 'its data source does not give it',
  engine: 'the engine could not be written',
  refused: 'the engine refuses it',
  config: 'the data configuration cannot be read',
};

/** Returns the text for a kind. Older clients send none; newer ones may send others. */
export function kindText(kind: string | undefined): string {
  return Object.entries(KIND_TEXTS).find(([known]) => known === kind)?.[1] ?? 'it fails at the client';
}
