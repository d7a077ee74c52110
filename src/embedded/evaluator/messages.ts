import type { DocPath } from '../../wire/doc-path.js';
import type { GoProgram } from '../artifact.js';
import type { DocumentOp } from '../types.js';

/**
 * Between an evaluator's thread and its owner. Calls are carried out in order, and each has one
 * answer, in the same order: numbers of calls need not be sent.
 */

/** What the worker is started with. */
export interface EvaluatorSetup {
  readonly module: WebAssembly.Module;
  /** All documents: one JSON object. */
  readonly documents: string;
  /** See `CompiledPolicyOptions`. */
  readonly reads?: ReadonlyMap<string, readonly DocPath[]> | undefined;
  readonly memoryLimitBytes: number;
  /** See {@link SharedProgress}. */
  readonly progress: SharedArrayBuffer;
}

/**
 * Decisions of one turn of the owner's loop, as a list of path, input, path, input: the cheapest
 * form to copy.
 */
export type DecisionBatch = readonly (string | undefined)[];

/**
 * The worker's first message where the policy calls built-in functions of Go; {@link GoProgram} is
 * the answer.
 */
export const NEEDS_GO = 'needs go';

/** A message to the worker. */
export type EvaluatorMessage = EvaluatorCall | { readonly program: GoProgram };

/** What the worker carries out. */
export type EvaluatorCall = DecisionBatch | { readonly patch: readonly DocumentOp[] } | { readonly read: DocPath };

/** Why a call failed. `ends`: so did the evaluator. `isOfDocuments`: see `WorkerFailure`. */
export interface EvaluatorFailure {
  readonly message: string;
  readonly isOfDocuments?: boolean;
  readonly ends: 'memory' | 'crashed' | undefined;
}

/** The answer to one call. */
export type EvaluatorAnswer = string | undefined | EvaluatorFailure;

/** A message of the worker; the first one of this kind has the answer to its start. */
export type EvaluatorAnswers = readonly EvaluatorAnswer[];

/**
 * The decision under way, in memory that both sides see: the owner tells one that takes too long
 * from a queue that is long.
 */
export class SharedProgress {
  readonly shared: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(shared = new SharedArrayBuffer(12)) {
    this.shared = shared;
    this.#words = new Int32Array(shared);
  }

  /** The call that is being carried out, counted from 1; 0 if none is that has a time limit. */
  get underWay(): number {
    return Atomics.load(this.#words, 0) >>> 0;
  }

  set underWay(call: number) {
    Atomics.store(this.#words, 0, call);
  }

  /** Pages of memory. */
  get pages(): number {
    return Atomics.load(this.#words, 1);
  }

  set pages(pages: number) {
    Atomics.store(this.#words, 1, pages);
  }
}
