import { parseDocPath } from '../../wire/doc-path.js';
import { hasApplied } from '../../wire/session.js';
import { isConcerned, type KnownClient, kindText, type PublishedTopics, wasKnown, wasThere } from './known-client.js';

export interface AwaitedUpdate {
  readonly seq: number;
  readonly topics: PublishedTopics;
  /** `dst_path` of each entry. */
  readonly paths: readonly string[];
  /** The publisher is limited to topics or paths: it sees the kind of a failure, not its text. */
  readonly isLimited?: boolean | undefined;
}

/** What fails at a client, and where, apart from each other. */
export interface ApplyFailure {
  /** The document; undefined: it is not known, or may not be named. */
  readonly path?: string | undefined;
  readonly text: string;
}

/** Whether a client has applied an update; `open`: it may still do so. `reason` is for people. */
export type ApplyStatus =
  | { readonly kind: 'applied' }
  | { readonly kind: 'blocked'; readonly reason: string; readonly failure: ApplyFailure }
  | { readonly kind: 'open'; readonly reason: string; readonly failure?: ApplyFailure };

/**
 * The status of a client (design D21). A superseded update is applied once the engine holds what
 * has replaced it: until then the client lists it as unresolved.
 */
export function applyStatusOf(client: KnownClient, update: AwaitedUpdate, epoch: string): ApplyStatus {
  const { position: at, state } = client;
  const away = awayText(client);
  if (at === null) return { kind: 'open', reason: away ?? 'it has not reported yet' };
  if (at.epoch !== epoch) return { kind: 'open', reason: away ?? 'its position is in another log' };
  if (state?.blocked.includes(update.seq)) {
    const failure = failureOf(client, update) ?? { text: 'the engine refuses it' };
    return { kind: 'blocked', reason: `blocked: ${sentence(failure)}`, failure };
  }
  if (hasApplied(at, update.seq)) return { kind: 'applied' };
  if (away !== undefined) return { kind: 'open', reason: away };
  if (at.unresolved.includes(update.seq)) {
    const failure = failureOf(client, update) ?? { text: 'it is being retried' };
    return { kind: 'open', reason: `failing: ${sentence(failure)}`, failure };
  }
  return { kind: 'open', reason: `it has applied up to ${at.applied_through}` };
}

/**
 * How a client stands in a wait. `away`: it was not connected when the update was recorded, and is
 * not now: it is named, and not waited for. `unknown`: it never says what it holds. `later`: it
 * came after the update, and has it or loads it first. `stopped`: it said goodbye, and is nobody to
 * wait for.
 */
export type WaitStanding =
  | ApplyStatus
  | { readonly kind: 'away'; readonly reason: string }
  | { readonly kind: 'unknown' | 'later' | 'stopped' };

/** Whether a client was known when the update was recorded, connected or away. */
export function isKnownBefore(client: KnownClient, { seq, topics }: AwaitedUpdate): boolean {
  return wasKnown(client.spans, seq) && isConcerned(client, topics);
}

/**
 * The standing of one client. `client`: the best view of it. `isKnown`: by {@link isKnownBefore},
 * of any view. `isOpen`: so far the wait waits for it. Undefined: the update does not concern it.
 */
export function standingInWait(
  client: KnownClient,
  { update, epoch }: { readonly update: AwaitedUpdate; readonly epoch: string },
  { isKnown, isOpen }: { readonly isKnown: boolean; readonly isOpen: boolean },
): WaitStanding | undefined {
  const { kind, spans, position, awaySinceMs } = client;
  // What other instances remember of it counts for nothing.
  if (client.saidGoodbye) return { kind: 'stopped' };
  if (!isKnown && !isConcerned(client, update.topics)) return undefined;
  if (kind === 'plain') return { kind: isKnown ? 'unknown' : 'later' };
  // One that comes after the update with what was before it decides by that until it has caught up.
  const hadBefore = position?.epoch === epoch;
  const status = applyStatusOf(client, update, epoch);
  if (status.kind === 'applied') return isKnown || isOpen ? status : { kind: 'later' };
  if (awaySinceMs !== null && !isOpen && !wasThere(spans, update.seq)) {
    return isKnown || hadBefore ? { kind: 'away', reason: awayText(client) ?? '' } : { kind: 'later' };
  }
  return isKnown || isOpen || hadBefore ? status : { kind: 'later' };
}

/**
 * Whether a wait may say that all clients concerned have applied the update. Nothing else decides
 * it. `incomplete`: why there may be clients that nobody hears of (`fleet-picture.ts`).
 */
export function mayBeAllApplied(
  counts: Readonly<Record<WaitStanding['kind'], number>>,
  incomplete: string | undefined,
): boolean {
  return counts.open === 0 && counts.blocked === 0 && incomplete === undefined;
}

function awayText({ awaySinceMs, awayReason }: KnownClient): string | undefined {
  if (awaySinceMs === null) return undefined;
  const since = `away since ${new Date(awaySinceMs).toISOString()}`;
  return awayReason === undefined ? since : `${since}: ${awayReason}`;
}

/** Returns the failure that the client reports at the paths of the update. */
function failureOf({ state }: KnownClient, { paths, isLimited }: AwaitedUpdate): ApplyFailure | undefined {
  const found = state?.failing.find(({ path }) => paths.some((own) => overlap(segments(own), segments(path))));
  if (found === undefined) return undefined;
  return isLimited ? { text: kindText(found.kind) } : { path: found.path, text: found.error };
}

function sentence({ path, text }: ApplyFailure): string {
  return path === undefined ? text : `${path}: ${text}`;
}

function overlap(a: readonly string[] | undefined, b: readonly string[] | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const shorter = a.length < b.length ? a : b;
  return shorter.every((segment, index) => a[index] === segment && b[index] === segment);
}

function segments(path: string): readonly string[] | undefined {
  try {
    return parseDocPath(path);
  } catch {
    return undefined; // a client may report any text
  }
}
