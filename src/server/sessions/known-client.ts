import type { Position, SessionReport } from '../../wire/session.js';
import { ALL_TOPICS } from '../../wire/topics.js';

/**
 * When a client was subscribed, told in places of the log, since clocks differ: it was there for every record after `from`
 * and up to `until`. Null: it still is.
 */
export interface Span {
  readonly from: number;
  readonly until: number | null;
}

/** What a client last said of itself, without its name and position. */
export type ReportedState = Omit<SessionReport, 'client_id' | 'position'>;

/** One client, as the instance that it is (or was) connected to knows it. Plain data: other instances get it too. */
export interface KnownClient {
  readonly clientId: string;
  /** `plain`: an OPAL client, or whoever else subscribes and does not say what it holds. */
  readonly kind: 'session' | 'plain';
  /** The server instance that says so. */
  readonly instance: string;
  readonly address: string;
  readonly topics: readonly string[];
  /** The newest last. */
  readonly spans: readonly Span[];
  readonly connectedAtMs: number;
  /** Null: it is connected. */
  readonly awaySinceMs: number | null;
  /** Null: it holds nothing of this log, or did not say. */
  readonly position: Position | null;
  readonly state: ReportedState | null;
  readonly reportedAtMs: number | null;
  /** Also one that is over. */
  readonly lastError: { readonly path: string; readonly error: string; readonly atMs: number } | null;
}

/** Spans that are remembered of one client: one that comes and goes all the time needs no more. */
const MAX_SPANS = 8;

/** Adds a span and forgets old ones. */
export function withSpan(spans: readonly Span[], span: Span): readonly Span[] {
  return [...spans.slice(1 - MAX_SPANS), span];
}

/** Whether a client was subscribed when the record at a place was appended. */
export function wasThere(spans: readonly Span[], seq: number): boolean {
  return spans.some(({ from, until }) => from < seq && (until === null || seq <= until));
}

/** Whether a client that has these topics gets what is published on those. */
export function concerns(subscribed: readonly string[], published: readonly string[]): boolean {
  return subscribed.some((topic) => topic === ALL_TOPICS || published.includes(topic));
}

/** Of two instances' words on the same client the better: who has it connected, then who saw it last. */
export function preferred(a: KnownClient, b: KnownClient): KnownClient {
  if ((a.awaySinceMs === null) !== (b.awaySinceMs === null)) return a.awaySinceMs === null ? a : b;
  return lastSeenMs(b) > lastSeenMs(a) ? b : a;
}

function lastSeenMs({ connectedAtMs, awaySinceMs }: KnownClient): number {
  return awaySinceMs ?? connectedAtMs;
}
