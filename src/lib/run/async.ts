import { setImmediate as nextTurn } from 'node:timers/promises';
import { failureFields } from '../errors.js';
import type { Logger } from '../observe/log.js';

/** Delays of a retry, in milliseconds. */
export interface BackoffOptions {
  /** Upper bound of the first delay. */
  minMs: number;
  /** Upper bound of any delay. */
  maxMs: number;
}

/**
 * The delay before retry number `attempt` (1 for the first retry): full jitter, uniform between 0
 * and `min(maxMs, minMs * 2^(attempt-1))`. `floorMs` (from `Retry-After`) is a lower bound that
 * jitter is added to.
 */
export function backoffMs(attempt: number, options: BackoffOptions, floorMs = 0, random = Math.random): number {
  const bound = Math.min(options.maxMs, options.minMs * 2 ** Math.min(attempt - 1, 30));
  return floorMs + random() * bound;
}

/** Waits `ms` milliseconds, or rejects with the signal's reason as soon as it aborts. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return abortable(signal, (resolve) => startTimer(ms, resolve));
}

/**
 * Resolves when `begin` calls its argument, or rejects with the signal's reason when that aborts
 * first. What `begin` returns is called at either end.
 */
function abortable(signal: AbortSignal, begin: (resolve: () => void) => () => void): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const done = (): void => {
      end();
      signal.removeEventListener('abort', onAbort);
    };
    const onAbort = (): void => {
      done();
      reject(signal.reason);
    };
    const end = begin(() => {
      done();
      resolve();
    });
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

/**
 * True for the error that an aborted signal throws: a stop that somebody asked for, not a failure.
 */
export function isAbort(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted && (error === signal.reason || (error instanceof Error && error.name === 'AbortError'));
}

/** Resolves when the signal aborts, after all its listeners have heard. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/**
 * Awaits shared work, or rejects with the signal's reason as soon as it aborts, unless `hasBegun`.
 */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, hasBegun = () => false): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      if (!hasBegun()) reject(signal.reason);
    };
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** Who waits for a promise by {@link firstOf} now, and whether it has settled. */
interface Watched {
  isSettled: boolean;
  readonly waiting: Set<Waiting>;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
}

/** Belongs to the promises, and goes with them. */
const WATCHED = new WeakMap<Promise<unknown>, Watched>();

/**
 * Settles as the first of these promises does, or with the first value among them. Leaves nothing
 * at the others: `Promise.race` would leave a reaction, with its result, at each of them until it
 * settles, which of one that lives as long as a connection or a program is never.
 */
export function firstOf<T extends readonly unknown[] | []>(values: T): Promise<Awaited<T[number]>> {
  const promises = values.map((value) => Promise.resolve(value));
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      for (const promise of promises) WATCHED.get(promise)?.waiting.delete(own);
    };
    const own: Waiting = {
      resolve: (value) => {
        leave();
        resolve(value as Awaited<T[number]>);
      },
      reject: (reason) => {
        leave();
        reject(reason);
      },
    };
    for (const promise of promises) {
      const watched = WATCHED.get(promise) ?? watch(promise);
      if (watched.isSettled) promise.then(own.resolve, own.reject);
      else watched.waiting.add(own);
    }
  });
}

/** One reaction at the promise, for all who wait for it. */
function watch(promise: Promise<unknown>): Watched {
  const watched: Watched = { isSettled: false, waiting: new Set() };
  WATCHED.set(promise, watched);
  promise.then(
    (value) => {
      watched.isSettled = true;
      for (const { resolve } of [...watched.waiting]) resolve(value);
    },
    (reason: unknown) => {
      watched.isSettled = true;
      for (const { reject } of [...watched.waiting]) reject(reason);
    },
  );
  return watched;
}

/**
 * A condition that one part sets and one loop waits for; several sets before the wait count as one.
 */
export class Wakeup {
  #set = false;
  #wake: (() => void) | undefined;

  /** Lets the waiting loop run (or the next wait return at once). */
  set(): void {
    this.#set = true;
    this.#wake?.();
  }

  /**
   * Returns when `set` was called since the last wait, or after `timeoutMs`; rejects when the
   * signal aborts.
   */
  async wait(signal: AbortSignal, timeoutMs?: number): Promise<void> {
    signal.throwIfAborted(); // also when it was set: a loop that was stopped does no more work
    if (!this.#set) {
      await abortable(signal, (resolve) => {
        const stopTimer = timeoutMs === undefined ? undefined : startTimer(timeoutMs, resolve);
        this.#wake = resolve;
        return () => {
          stopTimer?.();
          this.#wake = undefined;
        };
      });
    }
    this.#set = false;
  }
}

/** Open or closed, any number of times; callers wait while it is closed. */
export class Gate {
  #isOpen: boolean;
  readonly #waiting = new Set<() => void>();

  constructor(isOpen: boolean) {
    this.#isOpen = isOpen;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  open(): void {
    this.#isOpen = true;
    for (const go of [...this.#waiting]) go();
  }

  close(): void {
    this.#isOpen = false;
  }

  /** Returns while the gate is open; rejects with the signal's reason when that aborts first. */
  async pass(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    while (!this.#isOpen) {
      await abortable(signal, (go) => {
        this.#waiting.add(go);
        return () => this.#waiting.delete(go);
      });
    }
  }
}

/** Runs async work one at a time, in the order of the calls. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Runs `work` after all work before it, whatever became of that; only this caller gets its
   * failure.
   */
  run<T>(work: () => T | Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Settles when all work so far has ended. */
  async settled(): Promise<void> {
    await this.#last;
  }
}

/**
 * Runs long work step by step and yields the event loop between two steps. Rejects with what a step
 * throws.
 */
export async function inSteps<T>(steps: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await nextTurn();
  }
}

/**
 * Runs `work` under a signal that aborts as soon as one of `signals` does, with its reason, or
 * after `timeoutMs` with a `TimeoutError`. Removes its listeners afterwards: each call of
 * `AbortSignal.any` would leave a reference at the signals for as long as they live, which is as
 * long as the client runs (Node 20).
 */
export async function withAnySignal<T>(
  signals: readonly AbortSignal[],
  work: (signal: AbortSignal) => Promise<T>,
  timeoutMs?: number,
): Promise<T> {
  const either = new AbortController();
  const leaves = signals.map((signal) => {
    const onAbort = (): void => either.abort(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    return () => signal.removeEventListener('abort', onAbort);
  });
  const onTimeout = (): void => either.abort(new DOMException(`no answer within ${timeoutMs} ms`, 'TimeoutError'));
  const stopTimer = timeoutMs === undefined ? undefined : startTimer(timeoutMs, onTimeout);
  try {
    return await work(either.signal);
  } finally {
    stopTimer?.();
    for (const leave of leaves) leave();
  }
}

/**
 * The longest delay that a timer of Node takes, in milliseconds: 24.8 days. A longer one fires at
 * once, and its loop never rests.
 */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * A delay for timers that others start (HTTP libraries, intervals): at most the longest that they
 * accept.
 */
export function timerMs(ms: number): number {
  return Math.min(ms, MAX_TIMER_MS);
}

/** Calls back after a delay of any length. Returns a function that cancels it. */
export function startTimer(ms: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number): void => {
    const stepMs = timerMs(leftMs);
    timer = setTimeout(stepMs < leftMs ? () => arm(leftMs - stepMs) : callback, stepMs);
  };
  arm(ms);
  return () => clearTimeout(timer);
}

/**
 * Keeps hold of promises until they settle, so that a stop can wait for them and no failure is
 * lost.
 */
export class TaskSet {
  readonly #tasks = new Set<Promise<void>>();
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Takes a promise that handles its own failures; one that it did not expect is logged. */
  add(promise: Promise<unknown>): void {
    const task: Promise<void> = promise.then(
      () => {
        this.#tasks.delete(task);
      },
      (error: unknown) => {
        this.#tasks.delete(task);
        this.#log.error(failureFields(error, 'stack'), 'unexpected failure');
      },
    );
    this.#tasks.add(task);
  }

  /** Waits until none is left, those added meanwhile included. */
  async settled(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.all(this.#tasks);
  }
}
