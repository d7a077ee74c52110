import type { EngineAnswer, EngineQuestion } from '../../embedded/vocabulary.js';
import type { DocPath } from '../../wire/doc-path.js';

/**
 * The part of an engine that answers questions. Calls may be made at any time, and many at once.
 */
export interface DecisionEngine {
  /**
   * Answers a question, at once if the engine can. Throws, or rejects with, a `SyncError` that says
   * why there is no answer (`decision_timeout`, `engine_unreachable` and others); any other error
   * counts as `decision_failed`.
   */
  decide(question: EngineQuestion): EngineAnswer | Promise<EngineAnswer>;
  /**
   * True for an engine that keeps what it was given as long as the client lives, whatever fails in
   * it: once it was filled, its answers are good.
   */
  readonly keepsContent?: boolean;
  /**
   * The documents that the decision at a path reads; undefined if that is not known: then it may
   * read all.
   */
  reads?(path: string): readonly DocPath[] | undefined;
}
