import type { FastifyRequest } from 'fastify';
import * as z from 'zod';
import { type Caller, expiresAtMs } from '../auth/caller.js';
import { timerMs } from '../lib/run/async.js';

/** Longest time that a caller may ask to wait. */
const MAX_WAIT_MS = 60_000;

/**
 * `timeout` of a request that waits: `5s`, `500ms`, or seconds; at most a minute. In milliseconds.
 */
export const waitTimeout = z
  .string()
  .regex(/^\d{1,6}(\.\d{1,3})?(ms|s)?$/, 'must be like 5s, 500ms or 5')
  .transform((text) => Number.parseFloat(text) * (text.endsWith('ms') ? 1 : 1000))
  .refine((ms) => ms <= MAX_WAIT_MS, `must be at most ${MAX_WAIT_MS / 1000}s`);

/**
 * Waits on behalf of a caller: the signal aborts when the caller disconnects, or its token expires.
 */
export async function whileCallerWaits<T>(
  { raw: { socket } }: FastifyRequest,
  caller: Caller,
  wait: (gone: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const onClose = (): void => gone.abort();
  socket.once('close', onClose);
  const expiryMs = expiresAtMs(caller);
  const leftMs = expiryMs === undefined ? undefined : timerMs(Math.max(0, expiryMs - Date.now()));
  const timer = leftMs === undefined ? undefined : setTimeout(onClose, leftMs);
  try {
    return await wait(gone.signal);
  } finally {
    clearTimeout(timer);
    socket.off('close', onClose);
  }
}
