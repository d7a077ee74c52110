import { mock } from 'node:test';

/** Timers that fire when a story says so. `using` puts the real ones back. */
export interface StoryClock extends Disposable {
  /** Lets so much time pass, step by step; `rest` lets the work of each step come to its end. */
  pass(ms: number, rest: () => Promise<void>): Promise<void>;
}

const STEP_MS = 100;

/** Replaces timers, the clock and chance. */
export function storyClock(): StoryClock {
  let nowMs = 0;
  const timers = new Map<object, { readonly dueMs: number; readonly fire: () => void }>();
  const start = (fire: () => void, ms = 0): object => {
    const timer = {};
    timers.set(timer, { dueMs: nowMs + ms, fire });
    return timer;
  };
  const stop = (timer: object): void => void timers.delete(timer);
  const replaced = [
    mock.method(globalThis, 'setTimeout', start as typeof setTimeout),
    mock.method(globalThis, 'clearTimeout', stop as typeof clearTimeout),
    mock.method(performance, 'now', () => nowMs),
    mock.method(Date, 'now', () => nowMs),
    // A wait between two attempts is half of what it may be.
    mock.method(Math, 'random', () => 0.5),
  ];
  return {
    pass: async (ms, rest) => {
      for (const endMs = nowMs + ms; nowMs < endMs; ) {
        nowMs = Math.min(nowMs + STEP_MS, endMs);
        for (const [timer, { dueMs, fire }] of [...timers].sort(([, a], [, b]) => a.dueMs - b.dueMs)) {
          if (dueMs > nowMs || !timers.delete(timer)) continue;
          fire();
          await rest();
        }
      }
    },
    [Symbol.dispose]: () => {
      for (const each of replaced) each.mock.restore();
    },
  };
}
