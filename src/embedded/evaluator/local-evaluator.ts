import type { DocPath } from '../../wire/doc-path.js';
import { CompiledPolicy } from '../compiled/compiled-policy.js';
import { EvaluationError } from '../compiled/evaluation-error.js';
import { type DocumentOp, type Evaluator, type EvaluatorEnd, WorkerFailure } from '../types.js';

/** Options of {@link LocalEvaluator}. */
export interface LocalEvaluatorOptions {
  readonly module: WebAssembly.Module;
  /** All documents: one JSON object. */
  readonly documents: string;
  /** Documents that an entrypoint depends on; one without an entry may depend on all. */
  readonly reads?: ReadonlyMap<string, readonly DocPath[]> | undefined;
  readonly memoryLimitBytes: number;
}

/** Memory for a look into a module: none of it is touched but what the module itself has. */
const PROBE_BYTES = 64 * 1024 * 1024;

/**
 * An {@link Evaluator} on the caller's thread: the fastest one, without a time limit, for modules
 * that need no built-in function of Go.
 */
export class LocalEvaluator implements Evaluator {
  readonly ended: Promise<EvaluatorEnd>;
  readonly #policy: CompiledPolicy;
  #settleEnded: (end: EvaluatorEnd) => void = () => undefined;
  #end: EvaluatorEnd | undefined;

  /**
   * Throws a {@link WorkerFailure} if the module or the documents cannot be loaded, or need what is
   * not here.
   */
  constructor({ module, documents, reads, memoryLimitBytes }: LocalEvaluatorOptions) {
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    try {
      this.#policy = new CompiledPolicy(module, { memoryLimitBytes, documentBytes: documents.length, reads });
      this.#policy.setDocuments(documents);
    } catch (error) {
      throw failureOf(error);
    }
    const { needs } = this.#policy;
    if (needs.length > 0) throw new WorkerFailure('erred', `on this thread there is no ${needs.join(', ')}`);
  }

  /** Whether a module needs no built-in function of Go. */
  static canRun(module: WebAssembly.Module): boolean {
    return new CompiledPolicy(module, { memoryLimitBytes: PROBE_BYTES, documentBytes: 0 }).needs.length === 0;
  }

  get memoryBytes(): number {
    return this.#policy.memoryBytes;
  }

  /** As {@link decide}, at once; throws a {@link WorkerFailure}. */
  decideNow(path: string, input: string | undefined): string | undefined {
    if (this.#end !== undefined) throw new WorkerFailure('ended', this.#end.message);
    try {
      return this.#policy.evaluate(path, input);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  decide(path: string, input: string | undefined): Promise<string | undefined> {
    try {
      return Promise.resolve(this.decideNow(path, input));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async patch(ops: readonly DocumentOp[]): Promise<void> {
    if (this.#end !== undefined) throw new WorkerFailure('ended', this.#end.message);
    try {
      this.#policy.patch(ops);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  async read(path: DocPath): Promise<string | undefined> {
    if (this.#end !== undefined) throw new WorkerFailure('ended', this.#end.message);
    try {
      return this.#policy.read(path);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  async close(): Promise<void> {
    this.#finish({ kind: 'closed', message: 'the evaluator is closed' });
  }

  #failed(error: unknown): WorkerFailure {
    const failure = failureOf(error);
    if (!(error instanceof EvaluationError)) this.#finish({ kind: 'crashed', message: failure.message });
    else if (error.isBroken)
      this.#finish({ kind: error.problem === 'memory' ? 'memory' : 'crashed', message: error.message });
    return failure;
  }

  #finish(end: EvaluatorEnd): void {
    this.#end ??= end;
    this.#settleEnded(this.#end);
  }
}

function failureOf(error: unknown): WorkerFailure {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof EvaluationError)) return new WorkerFailure('erred', message, { cause: error });
  const { isBroken: isCrash, problem } = error;
  return new WorkerFailure('erred', message, { cause: error, isCrash, isOfDocuments: problem === 'documents' });
}
