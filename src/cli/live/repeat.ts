import { setTimeout as sleep } from 'node:timers/promises';
import { type ErrorCode, SyncError } from '../../lib/errors.js';
import { firstOf } from '../../lib/run/async.js';

/** Time between two looks. */
const PAUSE_MS = 2000;
const STOP_SIGNALS = ['SIGINT', 'SIGTERM'] as const;
/** Failures that pass: what is watched is started again. */
const UNREACHABLE: ReadonlySet<string> = new Set<ErrorCode>(['server_unreachable', 'client_unreachable']);

/** Where something is shown; as process.stdout. */
export interface Output {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
  write(text: string): unknown;
  on(event: 'error' | 'resize', listener: () => void): unknown;
  off(event: 'error' | 'resize', listener: () => void): unknown;
}

/**
 * Calls `step` every 2 s until SIGINT or SIGTERM, or until nobody reads `output`; then resolves,
 * also while a step waits. Rejects when a step does. After its waits, a step has to look at the
 * signal: once that is aborted, nothing may be shown any more.
 */
export async function repeat(
  step: (signal: AbortSignal) => Promise<void>,
  output: Pick<Output, 'on' | 'off'>,
): Promise<void> {
  await untilStopped(async (signal) => {
    while (!signal.aborted) {
      await step(signal);
      await sleep(PAUSE_MS, undefined, { signal }).catch(() => undefined); // stopped: the loop ends
    }
  }, output);
}

/**
 * Runs `work` until SIGINT or SIGTERM, or until nobody reads `output`; then resolves, also while
 * the work waits. Rejects when it does.
 */
export async function untilStopped(
  work: (signal: AbortSignal) => Promise<void>,
  output: Pick<Output, 'on' | 'off'>,
): Promise<void> {
  const stop = new AbortController();
  const { signal } = stop;
  const onStop = (): void => stop.abort();
  const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
  for (const name of STOP_SIGNALS) process.on(name, onStop);
  output.on('error', onStop);
  try {
    await firstOf([work(signal), stopped]);
  } finally {
    stop.abort();
    for (const name of STOP_SIGNALS) process.off(name, onStop);
    output.off('error', onStop);
  }
}

/** A failure that passes; throws every other one. */
export function passing(error: unknown): SyncError {
  if (error instanceof SyncError && UNREACHABLE.has(error.code)) return error;
  throw error;
}
