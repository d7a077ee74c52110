import { failureFields } from '../lib/errors.js';
import type { Logger } from '../lib/observe/log.js';
import { SerialQueue, sleep, startTimer } from '../lib/run/async.js';
import type { GoKeeperOptions, GoState } from './go-keeper.js';
import { CompileFailure, type MostTogether, mostTogether } from './most-together.js';
import { TimedGo } from './timed-go.js';
import { type CompiledSet, type EmbeddedPolicy, type GoEngine, WorkerFailure } from './types.js';
import { EngineRefusal } from './vocabulary.js';

/** What {@link EntrypointCompiler} compiles. */
export interface CompileJob {
  readonly policy: EmbeddedPolicy;
  /** All documents: one JSON object. */
  readonly documents: string;
  /** Known once the policy is: those that are to be kept before others first. */
  readonly paths: Promise<readonly string[]>;
  /** Whether somebody still waits for it. */
  isWanted(): boolean;
}

/** Dependencies of {@link EntrypointCompiler}. */
export interface EntrypointCompilerDeps {
  /** Starts a process that holds nothing. */
  readonly start: () => Promise<GoEngine>;
}

/** A process, from its start to its end. */
interface Running {
  readonly go: TimedGo;
  /** What it has prepared. */
  loaded: Pick<CompileJob, 'policy' | 'documents'> | undefined;
}

/** How long entrypoints may take that are compiled together: they are answered meanwhile. */
export const COMPILE_MS = 30_000;

/**
 * How long a process waits for the next job at most: questions of new paths come soon after each
 * other.
 */
const KEEP_MS = 10_000;
/**
 * How long it may take to find out which entrypoints of a job cannot be compiled: those that are
 * not known by then are left out.
 */
const SEARCH_MS = 120_000;

const STOPS = 'the client stops';

/**
 * Compiles entrypoints to WebAssembly in a process of its own, so that no decision waits for it,
 * and no failure is another one's. What is past a limit of time, memory or size ends the process,
 * and is found and left out. The process ends soon after the last job.
 */
export class EntrypointCompiler {
  readonly #options: Omit<GoKeeperOptions, 'backoff'>;
  readonly #deps: EntrypointCompilerDeps;
  readonly #jobs = new SerialQueue();
  #running: Running | undefined;
  #stopTimer: (() => void) | undefined;
  #failedEnds = 0;
  #isClosed = false;

  constructor(options: Omit<GoKeeperOptions, 'backoff'>, deps: EntrypointCompilerDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  get state(): Pick<GoState, 'memoryBytes' | 'failedEnds'> {
    return { memoryBytes: this.#running?.go.memoryBytes ?? 0, failedEnds: this.#failedEnds };
  }

  /**
   * Compiles as many of the entrypoints together as can be. Rejects if there is no process, or it
   * does not take the policy.
   */
  compile(job: CompileJob): Promise<MostTogether> {
    job.paths.catch(() => undefined); // it is awaited once the policy is loaded
    return this.#jobs.run(async () => {
      this.#stopTimer?.();
      try {
        await this.#load(job);
        const paths = await job.paths;
        const endMs = performance.now() + SEARCH_MS;
        return await mostTogether(paths, (some) => this.#attempt(job, some, endMs));
      } finally {
        this.#rest();
      }
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTimer?.();
    await this.#running?.go.kill(STOPS);
    await this.#jobs.settled();
  }

  async #attempt(job: CompileJob, paths: readonly string[], endMs: number): Promise<CompiledSet> {
    if (!job.isWanted()) throw new Error('another policy is active');
    if (performance.now() > endMs)
      throw new CompileFailure('the time to find the entrypoints that cannot be compiled was over before this one');
    const go = await this.#load(job);
    try {
      return await go.compile(paths, 'prepared');
    } catch (error) {
      if (this.#isClosed || !(error instanceof WorkerFailure || error instanceof EngineRefusal)) throw error;
      throw new CompileFailure(error.message, { cause: error });
    }
  }

  /** The process with the policy and the documents of a job. */
  async #load({ policy, documents }: CompileJob): Promise<TimedGo> {
    const running = await this.#started();
    const { loaded } = running;
    if (loaded?.policy !== policy || loaded.documents !== documents) {
      running.loaded = undefined;
      await running.go.prepare(policy, { roots: [[]], documents });
      running.loaded = { policy, documents };
    }
    return running.go;
  }

  async #started(): Promise<Running> {
    if (this.#running !== undefined) return this.#running;
    if (this.#isClosed) throw new WorkerFailure('ended', STOPS);
    const running: Running = { go: new TimedGo(await this.#deps.start(), this.#options), loaded: undefined };
    this.#running = running;
    void running.go.ended.then(() => {
      if (this.#running !== running) return;
      this.#running = undefined;
      if (!this.#isClosed) this.#failedEnds++;
    });
    if (this.#isClosed) await running.go.kill(STOPS);
    return running;
  }

  /** Ends the process after a while, unless a job comes. */
  #rest(): void {
    if (this.#isClosed) return;
    this.#stopTimer = startTimer(Math.min(KEEP_MS, this.#options.idleMs), () => {
      const running = this.#running;
      this.#running = undefined;
      void running?.go.kill('nothing is to be compiled');
    });
  }
}

/**
 * Time without compiling after each round, as a multiple of what the round took, and at most: it
 * takes a processor.
 */
const REST_FACTOR = 4;
const MAX_REST_MS = 30_000;

/** Compiles in the background what was asked for, all that came meanwhile together. */
export class CompileLoop {
  readonly #compile: () => Promise<void>;
  readonly #log: Logger;
  readonly #stop = new AbortController();
  #isWanted = false;
  #running: Promise<void> | undefined;

  constructor(compile: () => Promise<void>, log: Logger) {
    this.#compile = compile;
    this.#log = log;
  }

  request(): void {
    this.#isWanted = true;
    if (this.#stop.signal.aborted) return;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      if (this.#isWanted) this.request(); // it came between the last look and the end
    });
  }

  async close(): Promise<void> {
    this.#isWanted = false;
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (this.#isWanted && !signal.aborted) {
      this.#isWanted = false;
      const startedMs = performance.now();
      try {
        await this.#compile();
      } catch (error) {
        if (!signal.aborted) this.#log.warn(failureFields(error), 'entrypoints could not be compiled: Go answers');
      }
      await sleep(Math.min(REST_FACTOR * (performance.now() - startedMs), MAX_REST_MS), signal).catch(() => undefined); // it stops
    }
  }
}
