import type { SyncError } from '../../lib/errors.js';

/** The place in the update log up to which the engine held all data, or more, when it decided. */
export interface DecisionPosition {
  readonly epoch: string;
  readonly seq: number;
}

/** What every answer tells. */
interface DecisionFacts {
  /** A UUID; where the engine logs its decisions, the id of its log. */
  readonly id: string;
  /**
   * True if the result is `true`, or an object whose member `allow` is `true`. Nothing else is a
   * yes.
   */
  readonly allowed: boolean;
  /** Commit hash of the policy that decided; undefined if it is not known. */
  readonly policy: string | undefined;
  /** Undefined without an update log (data updates are off, or the server is OPAL's). */
  readonly position: DecisionPosition | undefined;
  /**
   * Since when the server of the client has been cut off from its backbone, in milliseconds since
   * 1970: what was published elsewhere since is missing. Undefined: it is not, as far as the client
   * knows.
   */
  readonly serverCutOffSinceMs: number | undefined;
  /**
   * True for the last good answer in place of one that cannot be had now (`onUnavailable: 'last'`).
   */
  readonly stale: boolean;
  /** Age of a stale answer in milliseconds; otherwise 0. */
  readonly ageMs: number;
  /** Why there was no answer, where `onUnavailable` replaced it. */
  readonly error: SyncError | undefined;
}

/**
 * What decided: compiled policy or OPA's evaluator (both embedded), an OPA over REST, or the
 * function of `onUnavailable`.
 */
export type DecidedBy = 'compiled' | 'go' | 'opa' | 'fallback';

/** The policy has a result. */
export interface ResultDecision<T> extends DecisionFacts {
  readonly kind: 'result';
  readonly result: T;
  /** The result as JSON, numbers as the engine wrote them. */
  readonly text: string;
  readonly by: DecidedBy;
}

/**
 * The policy has no result for this input: no rule matches and there is no default, or nothing has
 * this path.
 */
export interface UndefinedDecision extends DecisionFacts {
  readonly kind: 'undefined';
  readonly allowed: false;
  readonly result: undefined;
  readonly text: undefined;
  readonly by: DecidedBy;
}

/** No answer: `onUnavailable: 'deny'` says no in its place. `error` says why. */
export interface UnavailableDecision extends DecisionFacts {
  readonly kind: 'unavailable';
  readonly allowed: false;
  readonly result: undefined;
  readonly text: undefined;
  readonly by: 'deny';
  readonly error: SyncError;
}

/**
 * An answer. `kind` tells a policy's answer (`result`, `undefined`) from no answer at all
 * (`unavailable`).
 */
export type Decision<T = unknown> = ResultDecision<T> | UndefinedDecision | UnavailableDecision;

/** A question of a list. */
export interface DecisionQuestion {
  /** As in a URL of OPA, without `/v1/data`: `app/rbac/allow`. */
  readonly path: string;
  readonly input?: unknown;
}

/** What a function of `onUnavailable` learns. */
export interface NoAnswer extends DecisionQuestion {
  /** Why there is no answer. */
  readonly error: SyncError;
  /** The last good answer to the same question, marked as stale, if the client still has it. */
  readonly last: Decision | undefined;
}

/**
 * What to do without an answer. `error` (default): reject with the `SyncError`. `deny`: resolve
 * with an answer of kind `unavailable`. `last`: resolve with the last good answer to the same
 * question, if the client still has it; reject otherwise. A function: its value is the result
 * (undefined: the decision is undefined), and what it throws the rejection.
 */
export type OnUnavailable = 'error' | 'deny' | 'last' | ((missing: NoAnswer) => unknown);

/** Options of one decision. */
export interface DecideOptions<T = unknown> {
  readonly onUnavailable?: OnUnavailable | undefined;
  /** See {@link DecisionDefaults.waitMs}. */
  readonly waitMs?: number | undefined;
  /**
   * Checks and converts the result, for example a schema of zod. What it throws becomes
   * `decision_result_invalid`.
   */
  readonly parser?: { parse(result: unknown): T } | undefined;
}

/** How a client decides, where a call does not say otherwise. */
export interface DecisionDefaults {
  /** Default: `error`. */
  readonly onUnavailable?: OnUnavailable | undefined;
  /**
   * How long a decision waits for a client that has not had policy and data yet. Default 5,000 ms;
   * 0: not at all. A client that had them never waits: an engine that is away is an error at once.
   */
  readonly waitMs?: number | undefined;
  /**
   * Timeout of a question to an OPA over REST. Default 5,000 ms. For an embedded engine:
   * `embeddedDecisionTimeoutMs`.
   */
  readonly timeoutMs?: number | undefined;
  /** How many last good answers are kept for `onUnavailable`. Default 1,000. */
  readonly lastAnswers?: number | undefined;
  /** How long a last good answer may be used. Default 15 minutes. */
  readonly lastMaxAgeMs?: number | undefined;
}

/** Why a decision may be another one than before. */
export interface DecisionChange {
  readonly path: string;
  /**
   * `policy`: the policy was replaced, or documents that are loaded with it. `data`: documents that
   * the decision may read.
   */
  readonly what: 'policy' | 'data';
}

/** Asks the engine of a client, whichever it is. */
export interface Decider {
  /**
   * Asks for one decision. `path` is as in a URL of OPA, without `/v1/data`: `app/rbac/allow`.
   * `input` is any value that `JSON.stringify` can write; null is no input, as in OPA's REST API.
   * Rejects with a `SyncError` if there is no answer and `onUnavailable` does not say otherwise,
   * and with `request_invalid` for a path or an input that no engine can be asked.
   */
  decide<T = unknown>(path: string, input?: unknown, options?: DecideOptions<T>): Promise<Decision<T>>;
  /**
   * Asks one path with many inputs, as one batch. The answers have the order of the inputs; options
   * hold for each of them.
   */
  decideMany<T = unknown>(path: string, inputs: readonly unknown[], options?: DecideOptions<T>): Promise<Decision<T>[]>;
  /** Asks many questions as one batch. */
  decideMany<T = unknown>(questions: readonly DecisionQuestion[], options?: DecideOptions<T>): Promise<Decision<T>[]>;
  /**
   * Calls back after the policy, or a document that the decision may read, has changed in the
   * engine; changes of one turn of the event loop together. An embedded engine knows which
   * documents a compiled decision reads; otherwise each change of data counts. Returns a function
   * that ends it. What the callback throws is logged.
   */
  onChange(path: string, callback: (change: DecisionChange) => unknown): () => void;
}
