import { errorText, failureFields } from '../lib/errors.js';
import type { Logger } from '../lib/observe/log.js';
import type { DocPath } from '../wire/doc-path.js';
import { type CompiledModule, type ImmediateEvaluator, Replica, type StartEvaluator } from './replica.js';
import { type CompiledEntrypoint, type CompiledSet, type DocumentOp, WorkerFailure } from './types.js';

/** Dependencies of {@link Serving}. */
export interface ServingDeps {
  readonly start: StartEvaluator;
  /** All documents of the truth as they are now. */
  readonly documents: () => string;
  /** Go answers a path from now on. */
  readonly onLeft: (path: string, reason: string) => void;
  readonly log: Logger;
}

/**
 * Evaluators that replace one that ended by itself, one after the other, before Go answers instead.
 */
const MAX_REPLACEMENTS = 3;
/**
 * Decisions of one path, one after the other, that end an evaluator each, before Go answers this
 * path instead.
 */
const MAX_CRASHES = 3;

/** Why Go answers what could be compiled. */
export const NO_EVALUATOR =
  'no evaluator could be made with all documents; see the log, and SYNC_EMBEDDED_ENGINE_MEMORY_LIMIT';

/**
 * The evaluator that answers compiled decisions. A new policy, new entrypoints, or an evaluator
 * that ended lead to a new one, which is made beside the one that serves, follows the documents
 * meanwhile, and then takes its place at once.
 */
export class Serving {
  readonly #deps: ServingDeps;
  #current: Replica | undefined;
  /** Made, but not serving yet. */
  readonly #coming = new Set<Replica>();
  /** The replacement of one that ended; its questions wait. */
  #replacing: Promise<void> | undefined;
  #replacements = 0;
  /** What is compiled now; {@link #crashes} and {@link #erring} are about it. */
  #wasm: Uint8Array | undefined;
  readonly #crashes = new Map<string, number>();
  /** Paths whose last question erred because of the documents, and how. */
  readonly #erring = new Map<string, string>();
  /** Counts what {@link swap} did. */
  #swaps = 0;
  #failedEnds = 0;
  #isClosed = false;

  constructor(deps: ServingDeps) {
    this.#deps = deps;
  }

  /** Figures for status. */
  get state(): { readonly memoryBytes: number; readonly failedEnds: number } {
    return { memoryBytes: this.#current?.memoryBytes ?? 0, failedEnds: this.#failedEnds };
  }

  /** The compiled entrypoint of a path; undefined if Go answers it. */
  entrypoint(path: string): CompiledEntrypoint | undefined {
    return this.#current?.entrypoint(path);
  }

  /** Why Go answers a path that is compiled; undefined if it does not. */
  reasonForGo(path: string): string | undefined {
    if (this.#current === undefined) return this.#replacing === undefined ? NO_EVALUATOR : undefined;
    return this.#current.set.entrypoints.find((one) => one.path === path)?.reason ?? this.#erring.get(path);
  }

  /** The evaluator that serves, if it answers at once and has this path. */
  localFor(path: string): ImmediateEvaluator | undefined {
    const replica = this.#current;
    return replica?.entrypoint(path) === undefined ? undefined : replica.local;
  }

  /** Rejects with a {@link WorkerFailure}; after `ended` the question can be asked again. */
  async decide(path: string, input: string | undefined): Promise<string | undefined> {
    const replica = this.#current;
    if (replica === undefined) throw new WorkerFailure('erred', 'no evaluator serves');
    try {
      const answer = await replica.decide(path, input);
      this.#replacements = 0;
      if (this.#crashes.size > 0) this.#crashes.delete(path);
      if (this.#erring.size > 0) this.#erring.delete(path);
      return answer;
    } catch (error) {
      if (error instanceof WorkerFailure && error.isOfDocuments) this.#erring.set(path, error.message);
      if (error instanceof WorkerFailure && error.isCrash) {
        this.#crashed(replica, path, error.message);
      } else if (error instanceof WorkerFailure && error.kind === 'ended') {
        this.#ended(replica, error.message);
        await this.#replacing;
      }
      throw error;
    }
  }

  /** A document as the evaluator holds it; `none` if no evaluator serves. */
  async read(path: DocPath): Promise<{ readonly text: string | undefined } | 'none'> {
    try {
      return this.#current === undefined ? 'none' : { text: await this.#current.read(path) };
    } catch (error) {
      if (error instanceof WorkerFailure) return 'none'; // it has ended
      throw error;
    }
  }

  /**
   * Makes an evaluator of a compiled set, with `documents`, or those of the truth. It serves once
   * it is given to {@link swap}.
   */
  async make(set: CompiledSet, documents = this.#deps.documents()): Promise<Replica | undefined> {
    if (set.wasm === undefined || this.#isClosed) return undefined;
    const module: CompiledModule = { ...set, wasm: set.wasm };
    const replica = new Replica(module, documents, this.#deps.start, (reason) => this.#ended(replica, reason));
    this.#coming.add(replica);
    try {
      await replica.ready;
      return replica;
    } catch (error) {
      this.#coming.delete(replica);
      await replica.close();
      throw error;
    }
  }

  /**
   * Lets an evaluator of {@link make} serve, or none; the one before ends when its decisions have.
   */
  swap(next: Replica | undefined): void {
    const before = this.#current;
    this.#swaps++;
    if (next?.set.wasm !== this.#wasm) {
      this.#wasm = next?.set.wasm;
      this.#crashes.clear();
      this.#erring.clear();
      this.#replacements = 0;
    }
    if (next !== undefined) this.#coming.delete(next);
    this.#current = next;
    this.#replacing = undefined;
    before?.retire();
  }

  /** Drops an evaluator of {@link make} that is not wanted any more. */
  drop(replica: Replica | undefined): void {
    if (replica === undefined) return;
    this.#coming.delete(replica);
    replica.retire();
  }

  /**
   * Follows a change of the documents. A large one leads to a new evaluator; the one before serves
   * until then.
   */
  async patch(ops: readonly DocumentOp[], isLarge: boolean): Promise<void> {
    if (ops.length === 0) return;
    for (const replica of this.#coming) {
      replica.patch(ops).catch(() => undefined); // it is not ready then, or is replaced
    }
    const replica = this.#current;
    if (replica === undefined) return;
    try {
      if (isLarge) await this.#renew(replica, ops);
      else await replica.patch(ops);
    } catch (error) {
      this.#ended(replica, errorText(error));
      replica.retire();
      await this.#replacing;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const all = [...this.#coming, ...(this.#current === undefined ? [] : [this.#current])];
    this.#coming.clear();
    this.#current = undefined;
    await Promise.all(all.map((replica) => replica.close()));
  }

  /**
   * Makes a new evaluator with the documents of the truth, unless another one is made meanwhile,
   * which has them, too.
   */
  async #renew(replica: Replica, ops: readonly DocumentOp[]): Promise<void> {
    replica.leaveNumberKeys(ops); // also for one that takes its place if it ends
    const swaps = this.#swaps;
    const next = await this.make(replica.set);
    if (swaps === this.#swaps) this.swap(next);
    else this.drop(next);
  }

  /**
   * A decision has ended its evaluator. A path that does so again and again holds up all others
   * each time.
   */
  #crashed(replica: Replica, path: string, why: string): void {
    const { wasm } = replica.set;
    if (wasm === this.#wasm) {
      this.#replacements = 0;
      const crashes = (this.#crashes.get(path) ?? 0) + 1;
      this.#crashes.set(path, crashes);
      if (crashes >= MAX_CRASHES) {
        const reason = `its compiled decisions end the evaluator, one after the other: ${why}`;
        const all = [replica, ...this.#coming, ...(this.#current === undefined ? [] : [this.#current])];
        for (const one of all) if (one.set.wasm === wasm) one.leave(path, reason);
        this.#deps.log.warn({ path, reason }, 'an entrypoint is not compiled any more: Go answers it');
        this.#deps.onLeft(path, reason);
      }
    }
    this.#ended(replica, why);
  }

  #ended(replica: Replica, reason: string): void {
    if (replica !== this.#current) return;
    this.#failedEnds++;
    this.#current = undefined;
    if (this.#isClosed) return;
    if (++this.#replacements > MAX_REPLACEMENTS) {
      this.#deps.log.warn({ reason }, 'evaluators of compiled policy end one after the other: Go answers');
      return;
    }
    this.#deps.log.warn({ reason }, 'the evaluator of compiled policy ended: another one is filled');
    this.#replacing = this.#replace(replica.set);
  }

  /** Never rejects: if no evaluator can be made, Go answers. */
  async #replace(set: CompiledSet): Promise<void> {
    const swaps = this.#swaps;
    try {
      const next = await this.make(set);
      if (swaps === this.#swaps && !this.#isClosed) this.swap(next);
      else this.drop(next);
    } catch (error) {
      this.#deps.log.warn(failureFields(error), 'no evaluator of compiled policy can be made: Go answers');
      if (swaps === this.#swaps) this.#replacing = undefined;
    }
  }
}
