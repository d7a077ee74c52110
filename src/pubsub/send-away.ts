import { sleep } from '../lib/run/async.js';

/**
 * Close code (RFC 6455: going away) that tells a subscriber to reconnect at once, since another
 * server serves.
 */
export const SENT_AWAY_CODE = 1001;

const REASON = 'this server drains: connect again, to another one';

/**
 * Closes connections one by one, each at a random moment of the spread, so that they do not all
 * arrive elsewhere in one moment. Resolves when all were told. Rejects with the signal's reason
 * when that aborts; those that are left are not told then.
 */
export async function sendAway(
  connections: Iterable<{ leave(code: number, reason: string): void }>,
  spreadMs: number,
  signal: AbortSignal,
  random = Math.random,
): Promise<void> {
  const due = Array.from(connections, (connection) => ({ connection, atMs: random() * spreadMs }));
  due.sort((a, b) => a.atMs - b.atMs);
  const start = performance.now();
  for (const { connection, atMs } of due) {
    const leftMs = start + atMs - performance.now();
    // A millisecond is not worth a timer: those that are due in it are told together.
    if (leftMs >= 1) await sleep(leftMs, signal);
    else signal.throwIfAborted();
    connection.leave(SENT_AWAY_CODE, REASON);
  }
}
