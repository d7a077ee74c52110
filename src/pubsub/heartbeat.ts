import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';

/** Times of {@link startHeartbeat}, in milliseconds. */
export interface HeartbeatOptions {
  intervalMs: number;
  /** How long a ping may stay without any sign of life. */
  timeoutMs: number;
}

/**
 * Pings a peer and calls `onDead` once when it has gone without a close, as with a cut cable. Any byte that arrives is a
 * sign of life, and so is a backlog that drains: a slow peer is not a dead one. Returns what stops it.
 */
export function startHeartbeat(
  ws: WebSocket,
  socket: Socket,
  options: HeartbeatOptions,
  onDead: () => void,
): () => void {
  let deadline: NodeJS.Timeout | undefined;

  function ping(): void {
    const received = socket.bytesRead;
    let drained = drainedBytes(socket);
    let sent = false;
    // The error of a closing socket comes as its close event.
    ws.ping(undefined, undefined, () => {
      sent = true;
    });
    const look = (): void => {
      deadline = undefined;
      if (socket.bytesRead !== received) return;
      if (!sent && drainedBytes(socket) !== drained) {
        drained = drainedBytes(socket);
        deadline = setTimeout(look, options.timeoutMs);
        return;
      }
      stop();
      onDead();
    };
    deadline = setTimeout(look, options.timeoutMs);
  }

  const interval = setInterval(() => {
    if (deadline === undefined && ws.readyState === ws.OPEN) ping();
  }, options.intervalMs);
  const stop = (): void => {
    clearInterval(interval);
    clearTimeout(deadline);
  };
  return stop;
}

/** Bytes that the operating system has taken. */
function drainedBytes(socket: Socket): number {
  return socket.bytesWritten - socket.writableLength;
}
