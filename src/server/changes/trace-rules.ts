import { commit } from '../../fleet-rules/words.js';
import type { TraceClient, TraceConvergence, TraceState } from '../../wire/trace.js';
import { type KnownClient, reportedAtOf } from '../clients/known-client.js';
import { type ApplyFailure, type AwaitedUpdate, applyStatusOf } from '../clients/wait-rules.js';
import type { ClientTimes } from './change-times.js';
import { heldBy } from './client-times.js';

/** Most points of the curve of convergence. */
const CURVE_POINTS = 100;

/** How one client stands to a change. */
export interface ClientStanding {
  readonly state: TraceState;
  /** Without the place, which stands beside it. */
  readonly reason: string | null;
  /** Of a commit the file, of an update the path of the document. */
  readonly file?: string | null | undefined;
  readonly line?: number | null | undefined;
}

/** What the rules need of a change beside the client. */
interface Change {
  /** When it was announced; undefined: that is not known. */
  readonly announcedMs: number | undefined;
  readonly times: ClientTimes | undefined;
}

const APPLIED: ClientStanding = { state: 'applied', reason: null };
const REPLACED: ClientStanding = { state: 'replaced', reason: 'a later update replaced it before it was written' };
/** Since when is in `away_since`. */
const AWAY: ClientStanding = { state: 'away', reason: null };
const SAYS_NOTHING: ClientStanding = { state: 'unknown', reason: null };

/** How a client stands to a data update. */
export function standingToUpdate(
  client: KnownClient,
  { update, epoch, announcedMs, times }: Change & { readonly update: AwaitedUpdate; readonly epoch: string },
): ClientStanding {
  if (client.kind === 'plain') return SAYS_NOTHING;
  const status = applyStatusOf(client, update, epoch);
  if (status.kind === 'applied') return times?.replaced === undefined ? APPLIED : REPLACED;
  if (status.kind === 'blocked') return failed('refused', status.failure);
  if (client.awaySinceMs !== null) return AWAY;
  if (status.failure !== undefined) return failed('failing', status.failure);
  return waiting(client, status.reason, { announcedMs, times });
}

function failed(state: 'refused' | 'failing', { path, text }: ApplyFailure): ClientStanding {
  return { state, reason: text, ...(path !== undefined && { file: path }) };
}

/** How a client stands to a policy commit. `isHead`: it is the one that is served. */
export function standingToCommit(
  client: KnownClient,
  { hash, isHead, isLimited, announcedMs, times }: Change & { hash: string; isHead: boolean; isLimited: boolean },
): ClientStanding {
  if (client.kind === 'plain') return SAYS_NOTHING;
  const { state, awaySinceMs } = client;
  const held = state === null ? null : heldBy(state);
  if (held === hash) return APPLIED;
  const error = state?.policy?.wanted === hash ? state.policy.error : null;
  if (error != null) {
    const reason = isLimited ? 'the commit is not in force' : error.message;
    return { state: 'refused', reason, file: error.file, line: error.line };
  }
  const now = held === null ? null : `it holds ${commit(held)} now`;
  if (times?.appliedSeen !== undefined) return { state: 'applied', reason: now };
  if (times?.refusedSeen !== undefined) return { state: 'refused', reason: now };
  if (!isHead) return { state: 'replaced', reason: now };
  if (awaySinceMs !== null) return AWAY;
  return waiting(client, now, { announcedMs, times });
}

function waiting(client: KnownClient, reason: string | null, { announcedMs, times }: Change): ClientStanding {
  const reportedAtMs = reportedAtOf(client);
  const isSince = reportedAtMs !== null && announcedMs !== undefined && reportedAtMs > announcedMs;
  if (isSince || times?.heard !== undefined) return { state: 'pending', reason };
  return { state: 'not_heard', reason: reportedAtMs === null ? 'it has not reported yet' : reason };
}

/** What is shown of a client. */
export function traceView(
  client: KnownClient,
  {
    name,
    standing,
    times,
    wasThere,
  }: { name: string; standing: ClientStanding; times: ClientTimes | undefined; wasThere: boolean },
): TraceClient {
  return {
    client_id: name,
    kind: client.kind,
    connected: client.awaySinceMs === null,
    ...(client.awaySinceMs !== null && { away_since: client.awaySinceMs }),
    instance: client.instance,
    state: standing.state,
    reason: standing.reason,
    ...(standing.file != null && { file: standing.file, line: standing.line ?? null }),
    was_there: wasThere,
    heard_at: times?.heard ?? null,
    fetched_at: times?.fetched ?? null,
    applied_at: times?.applied ?? null,
    refused_at: times?.refused ?? null,
    applied_seen_at: times?.appliedSeen ?? null,
    refused_seen_at: times?.refusedSeen ?? null,
    reported_at: reportedAtOf(client),
  };
}

/**
 * When a client held a change: as it says, not when its report of that came, which gathers changes.
 * Not before the change began: clocks are known to some milliseconds only.
 */
function heldSince(
  { applied_at: applied, applied_seen_at: seen }: Pick<TraceClient, 'applied_at' | 'applied_seen_at'>,
  from: number,
): number | null {
  const at = seen === null ? null : Math.min(applied ?? seen, seen);
  return at === null ? null : Math.max(at, from);
}

/**
 * How fast the clients that were there came to hold a change; an unknown time leaves the rest open.
 */
export function convergenceOf(
  clients: readonly Pick<TraceClient, 'was_there' | 'kind' | 'applied_at' | 'applied_seen_at'>[],
  from: number,
): TraceConvergence {
  const counted = clients.filter(({ was_there, kind }) => was_there && kind === 'session');
  const seen = counted.flatMap((client) => heldSince(client, from) ?? []).sort((one, other) => one - other);
  const total = counted.length;
  const reached = (part: number): number | null => {
    const needed = Math.ceil(total * part);
    return needed === 0 ? null : (seen[needed - 1] ?? null);
  };
  const step = Math.max(1, Math.ceil(seen.length / CURVE_POINTS));
  const curve = seen.flatMap((at, index) => {
    const applied = index + 1;
    return applied % step === 0 || applied === seen.length ? [{ at, applied }] : [];
  });
  return {
    from,
    clients: total,
    first: seen[0] ?? null,
    half: reached(0.5),
    p99: reached(0.99),
    last: reached(1),
    curve,
  };
}
