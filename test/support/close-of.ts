import type { Socket } from 'node:net';

/** Resolves when a socket is closed, also by an error: a peer that cuts the connection may be seen as its end or as ECONNRESET. */
export function closeOf(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed) resolve();
    else socket.once('close', () => resolve());
  });
}
