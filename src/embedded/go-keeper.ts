import { errorText, failureFields, SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/observe/log.js';
import { type BackoffOptions, backoffMs, sleep, startTimer } from '../lib/run/async.js';
import { type GoLimits, TimedGo } from './timed-go.js';
import { type DocumentOp, type GoEngine, WorkerFailure } from './types.js';

/** Options of {@link GoKeeper}. */
export interface GoKeeperOptions extends GoLimits {
  /** The process is ended after this time without a call. */
  readonly idleMs: number;
  readonly backoff: BackoffOptions;
}

/** Dependencies of {@link GoKeeper}. */
export interface GoKeeperDeps {
  /** Starts a process that holds nothing. */
  readonly start: () => Promise<GoEngine>;
  /**
   * Brings policy and documents of the truth into a process. Reads the documents at once, before
   * anything else happens.
   */
  readonly fill: (go: GoEngine) => Promise<void>;
  /** Nothing needs the program any more: its memory can be given back. */
  readonly release: () => void;
  /** The process cannot be started or filled, again and again; undefined: it can again. */
  readonly onFailing: (reason: string | undefined) => void;
  readonly log: Logger;
}

/** How the Go process is. */
export interface GoState {
  /** Version of OPA; undefined before the first start. */
  readonly version: string | undefined;
  readonly loaded: boolean;
  readonly memoryBytes: number;
  readonly starts: number;
  /** Processes that ended otherwise than because nothing needed them. */
  readonly failedEnds: number;
}

const STOPS = 'the client stops';
/** Failures in a row after which callers no longer wait. */
const PATIENCE = 3;
/** Processes in which a call is tried: one may end because of another call. */
const MAX_ATTEMPTS = 4;

/** A process, from the decision to start it until another one takes its place. */
interface Life {
  /** The process once it is filled. */
  go: TimedGo | undefined;
  /** Changes since it was filled, until it is ready. */
  since: (readonly DocumentOp[])[];
}

/**
 * Keeps the Go process: starts and fills it when it is needed, ends it when nothing needs it, and
 * starts another one if it ends by itself. Callers wait for it, and do not notice that it was not
 * there.
 */
export class GoKeeper {
  readonly #options: GoKeeperOptions;
  readonly #deps: GoKeeperDeps;
  readonly #stop = new AbortController();
  #life: { readonly it: Life; readonly ready: Promise<TimedGo> } | undefined;
  #failures = 0;
  /** Why no process can be started, while callers do not wait for it. */
  #failing: SyncError | undefined;
  #version: string | undefined;
  #starts = 0;
  #failedEnds = 0;
  #stopIdleTimer: (() => void) | undefined;
  #stopRetryTimer: (() => void) | undefined;

  constructor(options: GoKeeperOptions, deps: GoKeeperDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Version of OPA; undefined before the first start. */
  get version(): string | undefined {
    return this.#version;
  }

  /** Whether there is a process, or one is being started. */
  get isHeld(): boolean {
    return this.#life !== undefined;
  }

  get state(): GoState {
    const go = this.#life?.it.go;
    return {
      version: this.#version,
      loaded: go !== undefined,
      memoryBytes: go?.memoryBytes ?? 0,
      starts: this.#starts,
      failedEnds: this.#failedEnds,
    };
  }

  /**
   * Makes calls of a process that holds policy and documents. If the process ends meanwhile, and
   * not because of these calls, they are made again in another one, `attempts` in all.
   */
  async use<T>(calls: (go: TimedGo) => Promise<T>, attempts = MAX_ATTEMPTS): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await calls(await this.#ready());
      } catch (error) {
        const isElsewhere = error instanceof WorkerFailure && error.kind === 'ended' && !this.#stop.signal.aborted;
        if (!isElsewhere || attempt === attempts) throw error;
      }
    }
  }

  /**
   * Whether this process holds what the truth holds: it has not ended, and no other one has taken
   * its place.
   */
  isCurrent(go: TimedGo): boolean {
    return this.#life?.it.go === go;
  }

  /**
   * Brings a change of the documents, which no rule can be in the way of, into the process, if
   * there is one. Does not wait for it: later calls do.
   */
  write(ops: readonly DocumentOp[]): void {
    const life = this.#life?.it;
    if (life === undefined || ops.length === 0) return;
    const { go } = life;
    if (go === undefined) {
      life.since.push(ops);
      return;
    }
    go.write(ops).catch((error: unknown) => {
      if (!this.isCurrent(go)) return; // it has ended, and with it the change
      this.#deps.log.warn(failureFields(error), 'the Go part of the engine did not take a change: it is filled again');
      this.#failedEnds++;
      this.drop('it did not take a change');
    });
  }

  /**
   * Ends the process, because it does not hold what it should; another one is started when it is
   * needed.
   */
  drop(reason: string): void {
    const ready = this.#life?.ready;
    this.#forget();
    ready?.then(
      (go) => go.kill(reason),
      () => undefined, // it is not there
    );
  }

  async close(): Promise<void> {
    this.#stop.abort(new SyncError('already_stopped', 'the policy engine was stopped'));
    this.#stopRetryTimer?.();
    const life = this.#life;
    this.#forget();
    await life?.it.go?.kill(STOPS);
    await life?.ready.then(
      (go) => go.kill(STOPS),
      () => undefined, // it was not there
    );
  }

  #ready(): Promise<TimedGo> {
    if (this.#life !== undefined) return this.#life.ready;
    if (this.#stop.signal.aborted) return Promise.reject(this.#stop.signal.reason);
    if (this.#failing !== undefined) return Promise.reject(this.#failing);
    return this.#begin();
  }

  #begin(): Promise<TimedGo> {
    const it: Life = { go: undefined, since: [] };
    const ready = this.#startUntilReady(it);
    this.#life = { it, ready };
    ready.catch(() => {
      if (this.#life?.it === it) this.#forget();
    });
    return ready;
  }

  async #startUntilReady(life: Life): Promise<TimedGo> {
    for (;;) {
      try {
        const go = await this.#start(life);
        this.#failures = 0;
        if (this.#failing !== undefined) this.#deps.onFailing(undefined);
        this.#failing = undefined;
        return go;
      } catch (error) {
        this.#stop.signal.throwIfAborted();
        if (this.#life?.it !== life)
          throw new WorkerFailure('ended', 'another process takes its place', { cause: error });
        // A damaged package stays damaged: the first start says so.
        if (this.#starts === 0 && error instanceof SyncError && !error.retryable) throw error;
        const delayMs = this.#failed(error);
        await sleep(delayMs, this.#stop.signal);
      }
    }
  }

  async #start(life: Life): Promise<TimedGo> {
    const startedMs = performance.now();
    const go = new TimedGo(await this.#deps.start(), this.#options);
    this.#starts++;
    this.#version = go.version;
    let end: WorkerFailure | undefined;
    void go.ended.then((failure) => {
      end = failure;
      this.#ended(go, failure.message);
    });
    try {
      this.#stop.signal.throwIfAborted();
      life.since = [];
      await this.#deps.fill(go);
      for (let ops = life.since.shift(); ops !== undefined; ops = life.since.shift()) await go.write(ops);
      if (end !== undefined) throw end;
    } catch (error) {
      await go.kill('it could not be filled');
      throw error;
    }
    life.go = go;
    if (this.#life?.it === life) this.#watchIdle(go);
    const durationMs = Math.round(performance.now() - startedMs);
    this.#deps.log.debug({ duration_ms: durationMs }, 'the Go part of the engine is ready');
    return go;
  }

  /**
   * Returns the delay before the next attempt; throws after several, and tries again in the
   * background.
   */
  #failed(error: unknown): number {
    const attempt = ++this.#failures;
    const delayMs = backoffMs(attempt, this.#options.backoff);
    if (attempt < PATIENCE) {
      this.#deps.log.warn({ ...failureFields(error), attempt }, 'the embedded engine does not start: trying again');
      return delayMs;
    }
    const isNews = this.#failing === undefined;
    const reason = `the embedded engine does not start: ${errorText(error)}`;
    this.#failing = new SyncError('engine_unreachable', reason, { cause: error, retryable: true });
    if (isNews) {
      this.#deps.log.error(failureFields(error), 'the embedded engine keeps failing to start: trying again');
      this.#deps.onFailing(reason);
    }
    this.#stopRetryTimer = startTimer(delayMs, () => {
      this.#begin().catch(() => undefined); // it is tried again
    });
    throw this.#failing;
  }

  #ended(go: TimedGo, reason: string): void {
    if (!this.isCurrent(go)) return;
    this.#forget();
    this.#failedEnds++;
    this.#deps.log.warn({ reason }, 'the Go part of the engine ended: it is started again when it is needed');
  }

  #forget(): void {
    this.#stopIdleTimer?.();
    this.#stopIdleTimer = undefined;
    if (this.#life === undefined) return;
    this.#life = undefined;
    this.#deps.release();
  }

  /** Ends a process that has had no call for a while. */
  #watchIdle(go: TimedGo): void {
    const { idleMs } = this.#options;
    const arm = (delayMs: number): void => {
      this.#stopIdleTimer = startTimer(delayMs, () => {
        if (go.idleMs >= idleMs) this.drop('nothing needs it');
        else arm(idleMs - go.idleMs);
      });
    };
    arm(idleMs);
  }
}
