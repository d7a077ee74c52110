import { SERVER_STOPPED } from '../../pubsub/close-reason.js';
import { type KnownClient, smallForm, withTimes } from '../clients/known-client.js';
import type { StoredClients } from './clients-file.js';

/** For so long after a start clients count as on their way back: they retry quickly. */
const RETURN_MS = 60_000;

/** What there is to compare stored clients with. */
export interface StartFacts {
  /** Name of this instance. */
  readonly instance: string;
  readonly epoch: string;
  /** Last seq of the log. */
  readonly head: number;
  /** Whether other instances append to the log, also while this one was stopped. */
  readonly isShared: boolean;
  readonly nowMs: number;
}

/** The stored clients as those that are away now, in the order in which they left. */
export function awayAtStart(stored: StoredClients, facts: StartFacts): KnownClient[] {
  const isSameLog = stored.epoch === facts.epoch && stored.seen <= facts.head;
  const until = facts.isShared ? stored.seen : facts.head;
  const away = stored.clients.map((client) => {
    const wasHere = client.awaySinceMs === null;
    // One that came after all were stored was there at least when it came.
    const leftMs = Math.min(client.awaySinceMs ?? Math.max(stored.atMs, client.connectedAtMs), facts.nowMs);
    const spans = withTimes(client, leftMs).map((span) =>
      span.until === null ? { ...span, until: Math.max(until, span.from) } : span,
    );
    return smallForm({
      ...client,
      instance: facts.instance,
      awaySinceMs: leftMs,
      awayReason: wasHere ? SERVER_STOPPED : client.awayReason,
      spans: isSameLog ? spans : [],
      position: isSameLog ? client.position : null,
    });
  });
  return away.sort((a, b) => (a.awaySinceMs ?? 0) - (b.awaySinceMs ?? 0));
}

/**
 * Why more clients may be there than are connected; undefined: all that were are back, or the start
 * is a while ago. `isBack`: whether a client, by its key, is connected, or has said goodbye.
 * `isAlone`: no other instance is there.
 */
export type WhyReturning = (
  isBack: (key: string) => boolean,
  now: { readonly nowMs: number; readonly isAlone: boolean },
) => string | undefined;

/**
 * Expects the clients back that were connected when the server ended. Who they were may not be
 * known: no file of them, or a damaged one, although the log is not new (`isNewLog`), and no other
 * instance that knows them.
 */
export function returning(
  stored: StoredClients | undefined,
  { startMs, isNewLog }: { readonly startMs: number; readonly isNewLog: boolean },
): WhyReturning {
  const missing = new Set(stored?.clients.filter((client) => wasCutOff(client, stored.atMs)).map(({ key }) => key));
  const isUnknown = stored === undefined && !isNewLog;
  return (isBack, { nowMs, isAlone }) => {
    if (nowMs - startMs > RETURN_MS) missing.clear();
    for (const key of missing) if (isBack(key)) missing.delete(key);
    const ago = `this server started ${Math.round((nowMs - startMs) / 1000)} s ago`;
    if (missing.size > 0) return `${ago}: clients are still coming back`;
    return isUnknown && isAlone && nowMs - startMs <= RETURN_MS
      ? `${ago}: clients may still be coming back`
      : undefined;
  };
}

/** Whether the end of the server was why a client left. */
function wasCutOff({ awaySinceMs, awayReason, saidGoodbye }: KnownClient, atMs: number): boolean {
  if (saidGoodbye) return false;
  return awaySinceMs === null || (awayReason === SERVER_STOPPED && atMs - awaySinceMs < RETURN_MS);
}
