import { startTimer } from './timer.js';

/**
 * Runs `work` under a signal that aborts as soon as one of `signals` does, with its reason, or after `timeoutMs` with a
 * `TimeoutError`. Removes its listeners afterwards: each call of `AbortSignal.any` would leave a
 * reference at the signals for as long as they live, which is as long as the client runs (Node 20).
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
