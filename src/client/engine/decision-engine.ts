import type { DocPath } from '../../wire/doc-path.js';

/** A question to the engine. */
export interface EngineQuestion {
  /** As after `/v1/data/` in a URL: `app/rbac/allow`, without slashes at its ends. */
  readonly path: string;
  /** JSON text; undefined: no input. */
  readonly input: string | undefined;
}

/** What the engine answers. */
export interface EngineAnswer {
  /** The result as JSON, as the engine wrote it; undefined: the decision is undefined. */
  readonly text: string | undefined;
  /** What decided: compiled policy or OPA's evaluator (both embedded), or an OPA over REST. */
  readonly by: 'compiled' | 'go' | 'opa';
  /** Hash of the policy that decided; undefined where the engine does not tell. */
  readonly policy: string | undefined;
  /** The id under which the engine logs the decision, if it does. */
  readonly id?: string | undefined;
}

/** The part of an engine that answers questions. Calls may be made at any time, and many at once. */
export interface DecisionEngine {
  /**
   * Answers a question, at once if the engine can. Throws, or rejects with, a `SyncError` that says why there is no answer
   * (`decision_timeout`, `engine_unreachable` and others); any other error counts as `decision_failed`.
   */
  decide(question: EngineQuestion): EngineAnswer | Promise<EngineAnswer>;
  /**
   * True for an engine that keeps what it was given as long as the client lives, whatever fails in it: once it was filled, its
   * answers are good.
   */
  readonly keepsContent?: boolean;
  /** The documents that the decision at a path reads; undefined if that is not known: then it may read all. */
  reads?(path: string): readonly DocPath[] | undefined;
}
