import { Worker } from 'node:worker_threads';
import type { DocPath } from '../../wire/doc-path.js';
import type { GoProgram } from '../artifact.js';
import { type DocumentOp, type Evaluator, type EvaluatorEnd, WorkerFailure } from '../types.js';
import {
  type EvaluatorAnswer,
  type EvaluatorAnswers,
  type EvaluatorCall,
  type EvaluatorFailure,
  type EvaluatorMessage,
  type EvaluatorSetup,
  NEEDS_GO,
  SharedProgress,
} from './messages.js';
import { Watch } from './watch.js';

/** Options of {@link EvaluatorThread.start}. */
interface EvaluatorThreadOptions {
  readonly module: WebAssembly.Module;
  /** All documents: one JSON object. */
  readonly documents: string;
  /** Documents that an entrypoint depends on; one without an entry may depend on all. */
  readonly reads?: ReadonlyMap<string, readonly DocPath[]> | undefined;
  /** Of the policy with its documents; what JavaScript needs has the same limit. */
  readonly memoryLimitBytes: number;
  /** How long one decision may take; waiting for others does not count. */
  readonly timeLimitMs: number;
  /** Asked for if the policy calls built-in functions of Go. */
  readonly loadProgram: () => Promise<GoProgram>;
}

/** A call without an answer. */
interface Waiting {
  resolve(answer: string | undefined): void;
  reject(error: WorkerFailure): void;
}

/** The least heap that JavaScript works with in a thread. */
const LEAST_HEAP_MB = 64;
const MIB = 1024 * 1024;
const PAGE_BYTES = 65_536;

/**
 * An {@link Evaluator} in a worker thread. Decisions that are asked for in one turn of the event
 * loop travel in one message. A decision beyond the time limit, the memory limit and a crash end
 * the worker: the call that was being carried out rejects with `timeout` or `erred`, all others
 * with `ended`.
 */
export class EvaluatorThread implements Evaluator {
  readonly ended: Promise<EvaluatorEnd>;
  readonly #worker: Worker;
  readonly #progress: SharedProgress;
  readonly #watch: Watch;
  readonly #waiting = new Fifo<Waiting>();
  #settleEnded: (end: EvaluatorEnd) => void = () => undefined;
  /** Decisions of this turn that are not sent. */
  #batch: (string | undefined)[] = [];
  /** Calls that have an answer. */
  #answered = 0;
  #end: EvaluatorEnd | undefined;
  #isClosing = false;

  private constructor({ timeLimitMs, loadProgram, ...setup }: EvaluatorThreadOptions) {
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    this.#progress = new SharedProgress();
    this.#watch = new Watch(timeLimitMs, {
      underWay: () => this.#progress.underWay,
      onLate: (call) => this.#late(call, timeLimitMs),
    });
    const heapMb = Math.max(LEAST_HEAP_MB, Math.ceil(setup.memoryLimitBytes / MIB));
    this.#worker = new Worker(new URL('./evaluator-worker.js', import.meta.url), {
      workerData: { ...setup, progress: this.#progress.shared } satisfies EvaluatorSetup,
      resourceLimits: { maxOldGenerationSizeMb: heapMb },
    });
    this.#worker.on('message', (message: EvaluatorAnswers | typeof NEEDS_GO) => {
      if (message === NEEDS_GO) void this.#give(loadProgram);
      else this.#settle(message);
    });
    this.#worker.on('error', (error: Error & { code?: string }) => {
      this.#fail({ kind: error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'crashed', message: error.message });
    });
    this.#worker.on('exit', () => this.#fail({ kind: 'crashed', message: 'the thread of a compiled policy ended' }));
  }

  /**
   * Starts the thread with its documents. Rejects with a {@link WorkerFailure} if they cannot be
   * loaded.
   */
  static async start(options: EvaluatorThreadOptions): Promise<EvaluatorThread> {
    const thread = new EvaluatorThread(options);
    await thread.#answer();
    return thread;
  }

  get memoryBytes(): number {
    return this.#progress.pages * PAGE_BYTES;
  }

  decide(path: string, input: string | undefined): Promise<string | undefined> {
    if (this.#isOver()) return Promise.reject(this.#gone());
    if (this.#batch.length === 0) process.nextTick(() => this.#send());
    this.#batch.push(path, input);
    this.#watch.start();
    return this.#answer();
  }

  async patch(ops: readonly DocumentOp[]): Promise<void> {
    await this.#ask({ patch: ops });
  }

  read(path: DocPath): Promise<string | undefined> {
    return this.#ask({ read: path });
  }

  /** Ends the thread once it has answered everything it was asked. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#endIfIdle();
    await this.ended;
  }

  #isOver(): boolean {
    return this.#isClosing || this.#end !== undefined;
  }

  #gone(): WorkerFailure {
    return new WorkerFailure('ended', this.#end?.message ?? 'the evaluator is closed');
  }

  /** The answer to the call that was made last. */
  #answer(): Promise<string | undefined> {
    if (this.#waiting.length === 0) this.#worker.ref();
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  #ask(call: EvaluatorCall): Promise<string | undefined> {
    if (this.#isOver()) return Promise.reject(this.#gone());
    this.#send(); // decisions that were asked for earlier
    this.#worker.postMessage(call);
    return this.#answer();
  }

  async #give(loadProgram: () => Promise<GoProgram>): Promise<void> {
    try {
      const program = await loadProgram();
      if (this.#end === undefined) this.#worker.postMessage({ program } satisfies EvaluatorMessage);
    } catch (error) {
      this.#fail({ kind: 'crashed', message: error instanceof Error ? error.message : String(error) });
    }
  }

  #send(): void {
    if (this.#batch.length === 0 || this.#end !== undefined) return;
    const batch = this.#batch;
    this.#batch = [];
    this.#worker.postMessage(batch satisfies EvaluatorMessage);
  }

  #settle(answers: EvaluatorAnswers): void {
    for (const answer of answers) {
      const waiting = this.#waiting.shift();
      this.#answered++;
      if (!isFailure(answer)) {
        waiting?.resolve(answer);
        continue;
      }
      const { message, ends, isOfDocuments = false } = answer;
      waiting?.reject(new WorkerFailure('erred', message, { isCrash: ends !== undefined, isOfDocuments }));
      if (ends !== undefined) this.#fail({ kind: ends, message });
    }
    this.#endIfIdle();
  }

  #endIfIdle(): void {
    if (this.#waiting.length > 0 || this.#end !== undefined) return;
    this.#watch.stop();
    if (this.#isClosing) this.#fail({ kind: 'closed', message: 'the evaluator is closed' });
    else this.#worker.unref();
  }

  #late(call: number, timeLimitMs: number): void {
    const message = `a decision takes longer than its time limit of ${timeLimitMs} ms`;
    this.#fail({ kind: 'timeout', message }, call);
  }

  /**
   * Ends the evaluator, once. `call`: the number of the one that was being carried out, which is
   * not asked again; those before it have been carried out, but their answers did not arrive.
   */
  #fail(end: EvaluatorEnd, call = this.#progress.underWay): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#watch.stop();
    for (let number = this.#answered; this.#waiting.length > 0; number++) {
      const kind = number >>> 0 !== call ? 'ended' : end.kind === 'timeout' ? 'timeout' : 'erred';
      this.#waiting.shift()?.reject(new WorkerFailure(kind, end.message, { isCrash: kind !== 'ended' }));
    }
    void this.#worker.terminate().finally(() => this.#settleEnded(end));
  }
}

function isFailure(answer: EvaluatorAnswer): answer is EvaluatorFailure {
  return typeof answer === 'object';
}

/** First in, first out, without the cost of moving what remains. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Takes the oldest item; undefined if there is none. */
  shift(): T | undefined {
    const item = this.#items[this.#head];
    if (this.#head < this.#items.length) this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length) {
      this.#items.length = 0;
      this.#head = 0;
    } else if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}
