import { clientsIn, FAILED, MOVING, type Progress, progressOf } from '../../fleet-rules/progress.js';
import { shortText } from '../../lib/json/short-text.js';
import type { FleetChange } from '../../wire/fleet.js';
import type { TraceClient, TraceConvergence } from '../../wire/trace.js';
import { type ClientTimes, refusalView } from '../changes/change-times.js';
import type { Memories } from '../changes/find-change.js';
import { firstStage, isOfStart, rememberedOf } from '../changes/trace-parts.js';
import { type ClientStanding, convergenceOf, standingToCommit, standingToUpdate } from '../changes/trace-rules.js';
import { isPolicyTopic } from '../clients/client-view.js';
import { isConcerned, type KnownClient, wasConnected, wasThere } from '../clients/known-client.js';
import type { ChangeFacts } from './change-facts.js';

/** What the rules need beside the change. */
export interface RulesContext {
  readonly memories: Memories;
  /** Of the log. */
  readonly epoch: string;
  /** Whether the caller sees the kind of a failure, and not its text. */
  readonly isLimited: boolean;
}

/** How clients stand to one change: the rules of `GET /trace`. */
export interface ChangeRules {
  readonly kind: ChangeFacts['kind'];
  /** Changes when the state of any client may be another one although the client is the same. */
  readonly stamp: string;
  /** A client that is settled up to here, and held the change, still does. */
  readonly settledAt: number;
  /** Undefined: the change does not concern it. */
  standingOf(client: KnownClient): ClientStanding | undefined;
  /** Whether it counts for the convergence. */
  counts(client: KnownClient): boolean;
  /** When it held the change, as it says, and when its server instance first heard so. */
  heldAt(client: KnownClient): Pick<TraceClient, 'applied_at' | 'applied_seen_at'>;
  /** When the change began; undefined: no times are in memory. */
  readonly fromMs: number | undefined;
}

export function rulesOf(change: ChangeFacts, { memories, epoch, isLimited }: RulesContext): ChangeRules {
  const remembered = rememberedOf(memories, change.key);
  const isShort = remembered.some(({ memory }) => memory.isShort === true);
  const [first, ...others] = remembered;
  const timesOf = (key: string): ClientTimes | undefined => {
    const known = first?.memory.clients.get(key);
    if (others.length === 0) return known;
    return firstTimes([known, ...others.map(({ memory }) => memory.clients.get(key))]);
  };
  const announced = firstStage(remembered, 'announced');
  const stages = remembered.flatMap(({ memory }) => Object.values(memory.stages).flatMap((at) => at ?? []));
  const heldAt: ChangeRules['heldAt'] = ({ key }) => {
    const { applied = null, appliedSeen = null } = timesOf(key) ?? {};
    return { applied_at: applied, applied_seen_at: appliedSeen };
  };
  if (change.kind === 'data') {
    const announcedMs = announced ?? change.atMs;
    const update = { seq: change.key, topics: change.topics, paths: change.paths, isLimited };
    return {
      kind: change.kind,
      stamp: `${announcedMs} ${isShort}`,
      settledAt: change.key,
      standingOf: (client) =>
        isConcerned(client, change.topics)
          ? standingToUpdate(client, { update, epoch, announcedMs, times: timesOf(client.key) })
          : undefined,
      counts: (client) => client.kind === 'session' && wasThere(client.spans, change.key),
      heldAt,
      fromMs: remembered.length === 0 || isShort ? undefined : Math.min(change.atMs, ...stages),
    };
  }
  const isHead = change.state === 'served';
  const isServed = isHead || change.state === 'replaced';
  return {
    kind: change.kind,
    stamp: `${announced} ${isShort} ${change.state}`,
    // Whether a client counts depends on its connections.
    settledAt: Number.POSITIVE_INFINITY,
    standingOf: (client) =>
      isServed && client.topics.some(isPolicyTopic)
        ? standingToCommit(client, {
            ...{ hash: change.key, isHead, isLimited, announcedMs: announced },
            times: timesOf(client.key),
          })
        : undefined,
    counts: (client) => client.kind === 'session' && wasConnected(client, announced),
    heldAt,
    fromMs: stages.length === 0 || isShort || isOfStart(remembered) ? undefined : Math.min(...stages),
  };
}

/** Up to where a client has dealt with every update, and none of them is open. */
export function settledThrough({ position: at, state }: KnownClient, epoch: string): number {
  if (at === null || at.epoch !== epoch || at.unresolved.length > 0 || (state?.blocked.length ?? 0) > 0) return 0;
  return at.applied_through;
}

function firstTimes(all: readonly (ClientTimes | undefined)[]): ClientTimes | undefined {
  const known = all.filter((times) => times !== undefined);
  if (known.length < 2) return known[0];
  const first = (name: keyof ClientTimes): number | undefined =>
    known.find((times) => times[name] !== undefined)?.[name];
  const [heard, replaced, refusedSeen] = [first('heard'), first('replaced'), first('refusedSeen')];
  const held = replaced === undefined ? { applied: first('applied'), appliedSeen: first('appliedSeen') } : {};
  return { heard, replaced, refusedSeen, ...held };
}

/** The convergence over the clients that count; null: no times are in memory. */
export function changeConvergence(rules: ChangeRules, clients: readonly KnownClient[]): TraceConvergence | null {
  if (rules.fromMs === undefined) return null;
  const counted = clients.map((client) => ({
    kind: client.kind,
    was_there: true,
    ...rules.heldAt(client),
  }));
  return convergenceOf(counted, rules.fromMs);
}

/** Longest text of an error of clients. */
const ERROR_TEXT = 300;

/** What most of the clients say that refuse a change, or fail with it; null: none says why. */
export function commonestError(rules: ChangeRules, clients: readonly KnownClient[]): FleetChange['error'] {
  const errors = new Map<string, NonNullable<FleetChange['error']> & { readonly clients: number }>();
  for (const client of clients) {
    const error = errorOf(rules.kind, rules.standingOf(client));
    if (error === null) continue;
    const key = JSON.stringify(error);
    errors.set(key, { ...error, clients: (errors.get(key)?.clients ?? 0) + 1 });
  }
  return [...errors.values()].sort((one, other) => other.clients - one.clients)[0] ?? null;
}

function errorOf(kind: ChangeRules['kind'], standing: ClientStanding | undefined): FleetChange['error'] {
  if (standing === undefined || standing.reason === null) return null;
  const { reason, file, line } = standing;
  // It refused the commit once, and says no longer why.
  if (kind === 'policy' && file === undefined) return null;
  return {
    message: shortText(reason, ERROR_TEXT),
    ...(file !== undefined && { file: file === null ? null : shortText(file, ERROR_TEXT) }),
    ...(kind === 'policy' && { line: line ?? null }),
  };
}

/** How long a change that everyone holds is still named: people see when it was complete. */
const SHOWN_MS = 10_000;

/**
 * The change that is to be named: one that moves, else one that the last client has just taken,
 * else one that is held up, else the newest. Of several the served commit, which the answer is
 * about, else the newest. `changes`: newest first.
 */
export function underWay(changes: readonly FleetChange[], nowMs: number): FleetChange | null {
  const current = changes.filter(isCurrent).map((change) => ({ change, progress: progressOf(change, nowMs).kind }));
  const served = current.filter(({ change }) => change.kind === 'policy');
  const first = (kind: Progress['kind']): (typeof current)[number] | undefined =>
    [...served, ...current].find(({ progress }) => progress === kind);
  const isJustHeld = ({ convergence }: FleetChange): boolean => nowMs - (convergence?.last ?? 0) < SHOWN_MS;
  const named =
    first('running') ??
    current.find(({ change, progress }) => progress === 'complete' && isJustHeld(change)) ??
    first('held_up') ??
    current[0];
  return named?.change ?? null;
}

/** How many other changes some connected client refuses, or cannot take. */
export function othersHeldUp(changes: readonly FleetChange[], named: FleetChange | null): number {
  return changes.filter((one) => one !== named && isCurrent(one) && clientsIn(one.counts, FAILED) > 0).length;
}

function isCurrent({ state }: FleetChange): boolean {
  return state === 'served' || state === 'under_way';
}

/** Most topics named, and most characters of a text: a stream keeps hundreds of changes. */
const SHOWN = { topics: 20, text: 300 };

/** What a response says of a change, for callers that see publishers. */
export function changeView(
  change: ChangeFacts,
  measured: Pick<FleetChange, 'counts' | 'total' | 'convergence' | 'error'>,
): FleetChange {
  const moves = clientsIn(measured.counts, MOVING) > 0;
  const { counts, total, convergence } = measured;
  if (change.kind === 'data') {
    return {
      kind: 'data',
      id: String(change.key),
      update_id: change.updateId,
      title: short(change.reason ?? ''),
      by: change.publisher === null ? null : short(change.publisher),
      at: change.atMs,
      topics: firstOf(change.topics, SHOWN.topics),
      size: change.size,
      paths: change.paths.map(short),
      state: moves ? 'under_way' : 'served',
      error: measured.error,
      ...{ counts: { ...counts }, total, convergence },
    };
  }
  const { error, about } = change;
  return {
    kind: 'policy',
    id: change.key,
    update_id: null,
    title: short(about?.title ?? ''),
    by: about?.author == null ? null : short(about.author),
    at: change.atMs,
    topics: change.topics.slice(0, SHOWN.topics),
    size: about?.files ?? null,
    paths: [],
    state: change.state === 'served' && moves ? 'under_way' : change.state,
    error: error === undefined ? measured.error : refusalView(error),
    ...{ counts: { ...counts }, total, convergence },
  };
}

function firstOf(topics: ReadonlySet<string>, count: number): string[] {
  const first: string[] = [];
  for (const topic of topics) {
    if (first.length === count) break;
    first.push(topic);
  }
  return first;
}

function short(text: string): string {
  return shortText(text, SHOWN.text);
}

/** The same for callers that do not see who published an update, and why. */
export function withoutPublisher(change: FleetChange): FleetChange {
  return change.kind === 'data' ? { ...change, title: '', by: null } : change;
}
