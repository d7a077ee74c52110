import type { FastifyRequest } from 'fastify';
import { z } from 'zod';

/** What requests have in common that wait for something. */

/** Longest time that a caller may ask to wait. */
const MAX_WAIT_MS = 60_000;

/** `timeout` of such a request: `5s`, `500ms`, or seconds; at most a minute. In milliseconds. */
export const waitTimeout = z
  .string()
  .regex(/^\d{1,6}(\.\d{1,3})?(ms|s)?$/, 'must be like 5s, 500ms or 5')
  .transform((text) => Number.parseFloat(text) * (text.endsWith('ms') ? 1 : 1000))
  .refine((ms) => ms <= MAX_WAIT_MS, `must be at most ${MAX_WAIT_MS / 1000}s`);

/** Waits for a caller: the signal aborts when that is gone. */
export async function whileCallerWaits<T>(
  { raw: { socket } }: FastifyRequest,
  wait: (gone: AbortSignal) => Promise<T>,
): Promise<T> {
  const gone = new AbortController();
  const onClose = (): void => gone.abort();
  socket.once('close', onClose);
  try {
    return await wait(gone.signal);
  } finally {
    socket.off('close', onClose);
  }
}
