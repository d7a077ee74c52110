import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, backoffMs, isAbort, sleep } from '../../lib/run/async.js';
import type { WriteStatus } from './log-store.js';

/** When a watch looks by itself. */
export interface WatchTimes {
  /** Delays between probes of a store that refused a write. */
  readonly retry: BackoffOptions;
  /** Between two looks at the room of a store that takes writes. */
  readonly lookMs: number;
}

const TIMES: WatchTimes = { retry: { minMs: 1_000, maxMs: 30_000 }, lookMs: 10_000 };
/** A probe after a refusal writes as much as was refused, and at most this. */
const PROBE_BYTES = 1024 * 1024;
/** A probe before any refusal writes so much: a usual update. */
const LOOK_BYTES = 64 * 1024;
/** Only where there is less room than this, a look writes. */
const LITTLE_ROOM = 2 * PROBE_BYTES;
/** The smallest write. */
const LEAST_BYTES = 1;

/** What a watch works with. */
export interface WriteWatchDeps {
  /** {@link LogStore.probe}. */
  probe(bytes: number): Promise<void>;
  /** {@link LogStore.room}. */
  room?(): Promise<number | undefined>;
  readonly log: Logger;
  readonly now: () => number;
}

/** What is known of a store that refuses writes. */
export interface Refused {
  readonly reason: string;
  readonly sinceMs: number;
  /**
   * Of the smallest write that was refused, and of which nothing since says that it would be taken.
   */
  readonly least: number;
  /** Of the largest one: once that is taken, all is well. */
  readonly most: number;
}

/**
 * After a write of so many bytes was taken; undefined: all is well. It proves something only of
 * writes that are no larger. Pure.
 */
export function afterTaken(refused: Refused | undefined, bytes: number): Refused | undefined {
  if (refused === undefined || bytes >= Math.min(refused.most, PROBE_BYTES)) return undefined;
  return bytes < refused.least ? refused : { ...refused, least: refused.most };
}

/** After writes were refused, `least` bytes or more each, all together `most`. Pure. */
export function afterRefused(
  refused: Refused | undefined,
  { reason, nowMs, least, most }: { reason: string; nowMs: number; least: number; most: number },
): Refused {
  if (refused === undefined) return { reason, sinceMs: nowMs, least, most };
  return {
    reason,
    sinceMs: refused.sinceMs,
    least: Math.min(refused.least, least),
    most: Math.max(refused.most, most),
  };
}

/**
 * Knows whether a store takes writes: by a probe at the start, by the outcome of each write, by its
 * room while nobody writes, and after a refusal by probes, so that a store that has room again is
 * known to have it before anybody publishes.
 */
export class WriteWatch {
  readonly #deps: WriteWatchDeps;
  readonly #times: WatchTimes;
  readonly #stop = new AbortController();
  #refused: Refused | undefined;
  #probing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | undefined;

  constructor(deps: WriteWatchDeps, times: Partial<WatchTimes> = {}) {
    this.#deps = deps;
    this.#times = { ...TIMES, ...times };
  }

  get status(): WriteStatus {
    if (this.#refused === undefined) return { ok: true };
    const { reason, sinceMs, least } = this.#refused;
    return { ok: false, reason, sinceMs, fromBytes: least > LEAST_BYTES ? least : undefined };
  }

  /**
   * Finds out whether the store takes writes now, and looks at its room from now on until
   * {@link close}. Never rejects.
   */
  async start(): Promise<void> {
    await this.#tryWrite(LOOK_BYTES);
    this.#planLook();
  }

  /**
   * Runs a write of rows with so many bytes each. `wrote`: how many bytes it did write. Rejects
   * like the write.
   */
  async during<T>(
    rows: readonly number[],
    write: () => Promise<T>,
    wrote: (result: T) => number = () => sum(rows),
  ): Promise<T> {
    try {
      const result = await write();
      this.#took(wrote(result));
      return result;
    } catch (error) {
      this.#failed(error, rows);
      throw error;
    }
  }

  /** Ends the probes. */
  async close(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#timer);
    await Promise.all([this.#probing, this.#looking]);
  }

  #took(bytes: number): void {
    const before = this.#refused;
    this.#refused = afterTaken(before, bytes);
    if (before === undefined || this.#refused !== undefined) return;
    this.#deps.log.info({ refused_ms: this.#deps.now() - before.sinceMs }, 'the update log takes writes again');
  }

  #failed(error: unknown, rows: readonly number[]): void {
    const refusal = refusalIn(error);
    if (refusal === undefined) return;
    // The cause alone, since the message has the path of the file and this is shown to everyone.
    const reason = refusal.cause === undefined ? 'see the server log' : errorText(refusal.cause);
    const sizes = rows.map((bytes) => Math.max(bytes, LEAST_BYTES));
    const found = { reason, nowMs: this.#deps.now(), least: Math.min(...sizes), most: sum(sizes) };
    this.#refused = afterRefused(this.#refused, found);
    if (!this.#stop.signal.aborted) this.#probing ??= this.#probe();
  }

  /** Probes until the store takes writes. Never rejects. */
  async #probe(): Promise<void> {
    const { signal } = this.#stop;
    try {
      for (let attempt = 1; this.#refused !== undefined; attempt++) {
        await sleep(backoffMs(attempt, this.#times.retry), signal);
        const most = this.#refused?.most;
        if (most === undefined) return; // a write was taken meanwhile
        // Whether smaller ones are taken has to be known, too.
        if (!(await this.#tryWrite(Math.min(most, PROBE_BYTES)))) await this.#tryWrite(LEAST_BYTES);
      }
    } catch (error) {
      if (!isAbort(error, signal)) this.#deps.log.error(failureFields(error, 'stack'), 'unexpected failure');
    } finally {
      this.#probing = undefined;
    }
  }

  #planLook(): void {
    if (this.#stop.signal.aborted) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.#look();
    }, this.#times.lookMs);
    this.#timer.unref();
  }

  /** Looks at the room, and probes where it is little. Never rejects. */
  async #look(): Promise<void> {
    if (this.#refused === undefined && (await this.#isNearlyFull())) await this.#tryWrite(LOOK_BYTES);
    this.#planLook();
  }

  async #isNearlyFull(): Promise<boolean> {
    try {
      const room = await this.#deps.room?.();
      return room !== undefined && room < LITTLE_ROOM;
    } catch (error) {
      this.#deps.log.debug(failureFields(error), 'the room of the update log is not known');
      return false; // the next look asks again
    }
  }

  /** Whether a probe of so many bytes was taken. */
  async #tryWrite(bytes: number): Promise<boolean> {
    const wasWell = this.#refused === undefined;
    try {
      await this.during([bytes], () => this.#deps.probe(bytes));
      return true;
    } catch (error) {
      const isNews = wasWell && this.#refused !== undefined;
      this.#deps.log[isNews ? 'warn' : 'debug']({ bytes, ...failureFields(error) }, REFUSED);
      return false;
    }
  }
}

const REFUSED = 'the update log does not take what is written to it';

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

/**
 * The refusal, also where it is the reason that only a part was written; undefined: the error is of
 * another kind.
 */
function refusalIn(error: unknown): SyncError | undefined {
  if (!(error instanceof SyncError)) return undefined;
  return error.code === 'log_unwritable' ? error : refusalIn(error.cause);
}
