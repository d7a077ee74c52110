import type { DocPath } from '../wire/doc-path.js';
import { leaveNumberKeys } from './number-keys.js';
import { type CompiledEntrypoint, type CompiledSet, type DocumentOp, type Evaluator, WorkerFailure } from './types.js';

/** Starts an evaluator with a compiled policy and all documents as one JSON text. */
export type StartEvaluator = (content: CompiledModule & { readonly documents: string }) => Promise<Evaluator>;

/** An evaluator that answers at once. */
export type ImmediateEvaluator = Evaluator & Required<Pick<Evaluator, 'decideNow'>>;

/** A compiled set that has a module. */
export type CompiledModule = CompiledSet & { readonly wasm: Uint8Array };

/**
 * One evaluator with the documents of the truth at the time when it was made, and all changes
 * since. Changes are kept until it is ready, so it can be made while another one serves.
 */
export class Replica {
  #set: CompiledModule;
  /** Rejects if it cannot be made. */
  readonly ready: Promise<void>;
  #entrypoints: ReadonlyMap<string, CompiledEntrypoint>;
  readonly #starting: Promise<Evaluator>;
  #evaluator: Evaluator | undefined;
  #since: (readonly DocumentOp[])[] = [];
  /** Why it no longer follows the truth. */
  #broken: WorkerFailure | undefined;
  #underWay = 0;
  #isRetired = false;
  #closing: Promise<void> | undefined;

  /** `onEnd`: it has ended, though it was not {@link retire}d. */
  constructor(set: CompiledModule, documents: string, start: StartEvaluator, onEnd: (reason: string) => void) {
    this.#set = set;
    this.#entrypoints = compiledOnes(set);
    this.#starting = start({ ...set, documents });
    this.ready = this.#getReady(onEnd);
    this.ready.catch(() => undefined); // whoever made it awaits it
  }

  /** What it answers now: changes of the documents leave entrypoints to Go. */
  get set(): CompiledModule {
    return this.#set;
  }

  get memoryBytes(): number {
    return this.#evaluator?.memoryBytes ?? 0;
  }

  /** The compiled entrypoint of a path; undefined if it is not among them. */
  entrypoint(path: string): CompiledEntrypoint | undefined {
    return this.#entrypoints.get(path);
  }

  /** Only once it is {@link ready}. */
  async decide(path: string, input: string | undefined): Promise<string | undefined> {
    const evaluator = this.#serving();
    this.#underWay++;
    try {
      return await evaluator.decide(path, input);
    } finally {
      this.#underWay--;
      if (this.#isRetired && this.#underWay === 0) this.#close();
    }
  }

  /** The evaluator, if it answers at once. */
  get local(): ImmediateEvaluator | undefined {
    const evaluator = this.#broken === undefined ? this.#evaluator : undefined;
    return evaluator?.decideNow === undefined ? undefined : (evaluator as ImmediateEvaluator);
  }

  /** Only once it is {@link ready}. */
  read(path: DocPath): Promise<string | undefined> {
    return this.#serving().read(path);
  }

  /** Leaves the entrypoints to Go that a change of the documents leaves to it. */
  leaveNumberKeys(ops: readonly DocumentOp[]): void {
    const set = leaveNumberKeys(this.#set, ops);
    if (set === this.#set) return;
    this.#set = set;
    this.#entrypoints = compiledOnes(set);
  }

  /** Leaves an entrypoint to Go. */
  leave(path: string, reason: string): void {
    const entrypoints = this.#set.entrypoints.map((one) =>
      one.path === path ? { ...one, compiled: false, reason } : one,
    );
    this.#set = { ...this.#set, entrypoints };
    this.#entrypoints = compiledOnes(this.#set);
  }

  /**
   * Follows a change of the documents: decisions from now on see it. Rejects if it cannot: then it
   * has to be replaced.
   */
  async patch(ops: readonly DocumentOp[]): Promise<void> {
    this.leaveNumberKeys(ops);
    if (this.#evaluator === undefined) {
      this.#since.push(ops);
      return;
    }
    try {
      await this.#evaluator.patch(ops);
    } catch (error) {
      this.#broken = new WorkerFailure('ended', 'the evaluator did not take a change', { cause: error });
      throw this.#broken;
    }
  }

  /** Ends it once the decisions under way have ended. */
  retire(): void {
    this.#isRetired = true;
    if (this.#underWay === 0) this.#close();
  }

  /** Ends it now. */
  async close(): Promise<void> {
    this.#isRetired = true;
    this.#close();
    await this.#closing;
  }

  #serving(): Evaluator {
    if (this.#broken !== undefined) throw this.#broken;
    if (this.#evaluator === undefined) throw new Error('the evaluator is not ready yet');
    return this.#evaluator;
  }

  async #getReady(onEnd: (reason: string) => void): Promise<void> {
    const evaluator = await this.#starting;
    for (let ops = this.#since.shift(); ops !== undefined; ops = this.#since.shift()) await evaluator.patch(ops);
    this.#evaluator = evaluator;
    void evaluator.ended.then(({ message }) => {
      if (!this.#isRetired) onEnd(message);
    });
  }

  #close(): void {
    this.#closing ??= this.#starting.then(
      (evaluator) => evaluator.close(),
      () => undefined, // it was not made
    );
    this.#closing.catch(() => undefined); // it has ended already
  }
}

function compiledOnes({ entrypoints }: CompiledSet): Map<string, CompiledEntrypoint> {
  return new Map(entrypoints.filter(({ compiled }) => compiled).map((one) => [one.path, one]));
}
