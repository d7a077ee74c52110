import * as z from 'zod';
import { MAX_INSTANT_MS } from './instant.js';
import { peerLabels } from './labels.js';
import { dict, list, MANY } from './lists.js';

/**
 * What our server and our client exchange beyond OPAL's pub/sub, over the same socket, once both
 * negotiated {@link SESSION_PROTOCOL}: a position with the subscription, a heartbeat, and what the
 * client holds (design D29, D20). Nothing of it is sent to a peer that negotiated less.
 */

/** Version of the socket protocol (`x-sync-protocol`) from which peers speak of sessions. */
export const SESSION_PROTOCOL = 2;

/**
 * Method names of the requests, in OPAL's framing: the client calls {@link REPORT_METHOD}, the
 * server {@link HEARTBEAT_METHOD}.
 */
export const HEARTBEAT_METHOD = 'heartbeat';
export const REPORT_METHOD = 'report';

/**
 * Most sequence numbers that a list may have: beyond it a client says less and catches up by fold.
 */
export const MAX_LISTED_SEQS = 1000;
/** Most failing entries that a report names, and the longest text of each. */
export const MAX_FAILING = 50;
export const MAX_FAILING_TEXT = 500;
/** Most topics that one peer may subscribe to: more than any client has. */
export const MAX_TOPICS = 10_000;
/** Longest client id. */
export const MAX_CLIENT_ID = 256;

const seq = z.number().int().nonnegative();
/** Last seq of a data update by topic; 0 or a missing topic: none. */
const heads = dict(seq, { max: MANY });
const seqs = z.array(seq).max(MAX_LISTED_SEQS);

/**
 * How far a client is in a log (design D20). Everything up to `applied_through` is applied or
 * listed as `unresolved` (it is fetched or written, or that fails and is retried; the same of what
 * has replaced it); `applied_beyond` are applied ones above it.
 */
export const position = z.object({
  epoch: z.string().max(200),
  applied_through: seq,
  applied_beyond: seqs.default([]),
  unresolved: seqs.default([]),
});
export type Position = z.infer<typeof position>;

/** A client's own name, stable over restarts, unique in the fleet. */
export const clientId = z.string().min(1).max(MAX_CLIENT_ID);

/** What a client can be asked (`client-ask.ts`): to tell about itself, or to act. */
export const ASK_KINDS = ['details', 'refresh', 'prune', 'drift_check', 'log_level'] as const;
export type AskKind = (typeof ASK_KINDS)[number];

/** What a client can be asked, as it says; what this version does not know is left out. */
export const asks = list(z.string().max(40), { max: 32 }).transform((kinds): readonly AskKind[] => {
  const known = ASK_KINDS.filter((kind) => kinds.includes(kind));
  return known.length === ASK_KINDS.length ? ASK_KINDS : known; // of most clients: one list for all
});

/** Arguments of our client's `subscribe`. */
export const sessionSubscribe = z.object({
  topics: list(z.string(), { max: MAX_TOPICS }),
  client_id: clientId,
  /** Missing: it holds nothing that it can place in a log. */
  position: position.optional(),
  /**
   * Missing: it has none, or is older. Labels that are not as they should be are none: they are no
   * reason to withhold an update.
   */
  labels: peerLabels.optional().catch(undefined),
  /** What it can be asked over this socket. Missing: nothing. */
  asks: asks.optional().catch(undefined),
  /**
   * When it says so, in milliseconds since 1970 by its own clock: one clock tells which of its
   * connections to several servers is the newest. Missing: it is older.
   */
  at: z.number().nonnegative().max(MAX_INSTANT_MS).optional().catch(undefined),
});
export type SessionSubscribe = z.infer<typeof sessionSubscribe>;

/**
 * For how long this server has been cut off from the backbone that it shares with others: what they
 * publish since does not arrive. Missing: it is not, or is older.
 */
const cutOffMs = z.number().nonnegative().optional();

/** The `result` of such a `subscribe`. A rejected client retries later, under the same id. */
export const sessionAnswer = z.discriminatedUnion('accepted', [
  z.object({
    accepted: z.literal(true),
    /**
     * Another one than the position's: catch up by fold, and delete nothing by absence (design
     * D11).
     */
    epoch: z.string(),
    /** Last seq of the log, of whatever kind. */
    head: seq.optional(),
    /**
     * Whether the position is one of this log: its epoch, and not ahead of its head. If not, it is
     * ignored (design D25): catch up by fold as after a change of the epoch. Missing: compare
     * yourself.
     */
    resumes: z.boolean().optional(),
    /** Of the topics that were subscribed to. */
    heads,
    policy_head: z.string().nullable(),
    heartbeat_seconds: z.number().positive(),
    /** Over how long the client should spread its catch-up; 0: at once. */
    spread_ms: z.number().nonnegative(),
    /** As in {@link heartbeat}. */
    cut_off_ms: cutOffMs,
    /**
     * Its id belongs to the holder of another token: the client is served, and listed under this
     * name. Missing: under its id.
     */
    listed_as: z.string().optional(),
  }),
  z.object({ accepted: z.literal(false), reason: z.string() }),
]);
export type SessionAnswer = z.infer<typeof sessionAnswer>;

/** Arguments of the server's `heartbeat`; a client need not respond. */
export const heartbeat = z.object({
  epoch: z.string(),
  /** Of the topics that this client subscribes to. */
  heads,
  /**
   * Over how long this server's clients should spread their return when all of them lose it.
   * Missing: they are few.
   */
  return_ms: z.number().nonnegative().max(600_000).optional(),
  policy_head: z.string().nullable(),
  /** As in the response to `subscribe`. */
  listed_as: z.string().optional(),
  cut_off_ms: cutOffMs,
});
export type HeartbeatMessage = z.infer<typeof heartbeat>;

const shortText = z.string().transform((text) => text.slice(0, MAX_FAILING_TEXT));
const millis = z.number().nonnegative().max(MAX_INSTANT_MS);

/**
 * What kind of failure it is; callers that may not see the text, which can quote a data source, may
 * see it. `source`: a source does not give the document. `engine`: the document is here, and could
 * not be written. `refused`: the engine, or a rule, rejects it. `config`: the data configuration
 * cannot be read.
 */
export const FAILURE_KINDS = ['source', 'engine', 'refused', 'config'] as const;
export type FailureKind = (typeof FAILURE_KINDS)[number];

/** One entry that fails. `error` is the reason. Older clients say neither kind nor time. */
export const failure = z.object({
  path: shortText,
  error: shortText,
  /** One of {@link FAILURE_KINDS}, or one that a newer client knows. */
  kind: z.string().max(40).optional(),
  /** When it began to fail, in milliseconds since 1970. */
  since: millis.optional(),
});
export type Failure = z.infer<typeof failure>;

const commit = z.string().max(200).nullable();

/** Most directories that a report names as missing. */
export const MAX_MISSING = 50;

/** How the policy of a client stands. */
export const policyState = z.object({
  /** The newest commit that the client has heard of; null: none. */
  wanted: commit,
  /** The commit that its engine holds; null: none. */
  held: commit,
  /**
   * Why it does not hold what it wants, with the place in the repository where there is one; null:
   * nothing fails.
   */
  error: z
    .object({ message: shortText, file: shortText.nullable(), line: z.number().int().nonnegative().nullable() })
    .nullable(),
  /** Since when it fails, or holds what it holds, in milliseconds since 1970; null: never yet. */
  since: millis.nullable(),
  /**
   * Directories that it subscribes to and that the commit does not have: they count as empty.
   * Missing: none.
   */
  missing: list(shortText, { max: MAX_MISSING }).optional(),
});
export type PolicyState = z.infer<typeof policyState>;

/** Most steps that a report names: of more, the client tells the last ones. */
export const MAX_STEPS = 100;

/**
 * How far a client is with one change, a data update by `seq` or a policy commit, with times in
 * milliseconds since 1970 by its own clock ({@link sessionReport}: `at`). A missing time: not yet,
 * or not known.
 */
export const changeStep = z.object({
  seq: seq.optional(),
  commit: z.string().max(200).optional(),
  /** When it learned of the change. */
  heard: millis.optional(),
  /** When all of its contents were here. */
  fetched: millis.optional(),
  /** When its engine held it. */
  applied: millis.optional(),
  /** When its engine refused it. */
  refused: millis.optional(),
  /**
   * When a later update had taken the place of all of it before the engine got any. Older clients
   * say `applied` then.
   */
  replaced: millis.optional(),
});
export type ChangeStep = z.infer<typeof changeStep>;

/**
 * Arguments of the client's `report`: what it holds now. Sent when it changed (debounced) and with
 * every heartbeat; the response is `true`.
 */
export const sessionReport = z.object({
  client_id: clientId,
  /** Null: nothing of a log yet. */
  position: position.nullable(),
  /** Commit that the engine holds; null: none. */
  policy_hash: z.string().max(200).nullable(),
  ready: z.boolean(),
  healthy: z.boolean(),
  /** How the policy stands; older clients do not say it. */
  policy: policyState.optional(),
  engine: z.object({
    kind: shortText,
    version: shortText.nullable(),
    online: z.boolean(),
    /** Why it is not online; null: it is. Older clients do not say it. */
    error: shortText.nullable().optional(),
    /** Since when it is (not) online, in milliseconds since 1970. */
    since: millis.optional(),
  }),
  /** What fails now, the oldest first. */
  failing: list(failure, { max: 20 * MAX_FAILING })
    .transform((entries) => entries.slice(0, MAX_FAILING))
    .default([]),
  /** Updates that the engine refuses until policy or data change (design D10). */
  blocked: seqs.default([]),
  /** How many fail, beyond those that are listed, too. Older clients do not say it. */
  failing_total: z.number().int().nonnegative().optional(),
  /** When `ready` and `healthy` became what they are, in milliseconds since 1970. */
  since: millis,
  /**
   * When it was sent, by the clock of the client, as are all times of a report: the server counts
   * back from its arrival, since clocks differ. Older clients do not say it: theirs is taken to be
   * right.
   */
  at: millis.optional(),
  /** What happened to the last changes since the report before. Older clients do not say it. */
  steps: list(changeStep, { max: MAX_STEPS }).optional(),
});
export type SessionReport = z.infer<typeof sessionReport>;

/** Every update up to here is in the engine, or what has replaced it. */
export function appliedUpTo(at: Position): number {
  return Math.min(at.applied_through, ...at.unresolved.map((seq) => seq - 1));
}

/**
 * Whether a position says that an update is dealt with: applied or superseded, and not listed as
 * failing.
 */
export function hasApplied(at: Position, wanted: number): boolean {
  if (at.unresolved.includes(wanted)) return false;
  return wanted <= at.applied_through || at.applied_beyond.includes(wanted);
}
