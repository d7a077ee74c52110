import { setMaxListeners } from 'node:events';
import { failureFields, SyncError } from '../errors.js';
import type { Logger } from '../observe/log.js';
import { isAbort } from './async.js';

/** Takes the parts of a program, in the order in which its composition root makes them. */
export interface Parts {
  /** Aborts when the program stops, also during its start. */
  readonly signal: AbortSignal;
  /**
   * Registers how a part ends, and returns the part. Parts end one after the other, the last one
   * first.
   */
  add<T>(part: T, end: (part: T) => unknown): T;
  /**
   * Runs a part until the signal aborts. When it fails, {@link Program.ended} rejects with its
   * error.
   */
  run(work: (signal: AbortSignal) => Promise<void>): void;
}

/** A program that is made of parts. */
export interface Program<T> {
  /** Makes and starts the parts. When one fails, it ends the others and rejects. */
  start(): Promise<T>;
  /**
   * Ends all parts, also of a start under way. Idempotent. A start after it rejects with
   * `already_stopped`.
   */
  stop(): Promise<void>;
  /** Resolves when the program has stopped; rejects when a part that runs fails. */
  ended(): Promise<void>;
}

/** Makes a program of the parts that `compose` makes. `name` is for messages: `server`. */
export function createProgram<T>(name: string, compose: (parts: Parts) => Promise<T>, log: Logger): Program<T> {
  const stopping = new AbortController();
  const { signal } = stopping;
  setMaxListeners(0, signal); // each part and each request listens
  const ends: (() => unknown)[] = [];
  let starting: Promise<T> | undefined;
  let stopped: Promise<void> | undefined;
  let over: () => void = () => undefined;
  let fail: (error: unknown) => void = () => undefined;
  const ended = new Promise<void>((resolve, reject) => {
    over = resolve;
    fail = reject;
  });
  ended.catch(() => undefined); // callers of ended() get the error

  const parts: Parts = {
    signal,
    add(part, end) {
      ends.push(() => end(part));
      return part;
    },
    run(work) {
      const running = work(signal).catch((error: unknown) => {
        if (isAbort(error, signal)) return;
        log.error(failureFields(error, 'stack'), `the ${name} cannot go on`);
        fail(error);
      });
      ends.push(() => running);
    },
  };

  async function start(): Promise<T> {
    if (signal.aborted) throw new SyncError('already_stopped', `this ${name} was stopped`);
    try {
      return await compose(parts);
    } catch (error) {
      await endAll();
      throw error;
    }
  }

  async function stop(): Promise<void> {
    stopping.abort();
    // A start that is under way finishes its step first, so that no part is left.
    await starting?.catch(() => undefined);
    await endAll();
  }

  /** A part that fails to end keeps none of the others from ending. */
  async function endAll(): Promise<void> {
    stopping.abort();
    const failures: unknown[] = [];
    for (const end of ends.splice(0).reverse()) {
      try {
        await end();
      } catch (error) {
        failures.push(error);
      }
    }
    over();
    if (failures.length > 0) throw new AggregateError(failures);
  }

  return {
    start: () => {
      if (stopped !== undefined) return start(); // which refuses
      starting ??= start();
      return starting;
    },
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
    ended: () => ended,
  };
}
