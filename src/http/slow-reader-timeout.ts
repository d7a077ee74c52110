import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import type { Logger } from '../lib/log.js';

/**
 * Disconnects callers that do not read (design D4): one that reads nothing of its response for `silenceMs` would otherwise hold its
 * connection, and the response in memory, for ever. A caller that reads slowly is served. The socket is checked once in that time, so
 * the disconnect comes after one to two times of it.
 */
export function useSlowReaderTimeout(app: FastifyInstance, silenceMs: number, log: Logger): void {
  // Not before there is a response: until then the caller waits. Node itself sets the timeout of a kept connection once the
  // response is sent.
  app.addHook('onSend', async (request, reply) => {
    const { socket } = request.raw;
    if (!(socket instanceof Socket)) return; // a call from within the process
    socket.setTimeout(silenceMs);
    reply.raw.once('timeout', () => {
      const fields = { address: socket.remoteAddress, method: request.method, path: request.routeOptions.url };
      log.info(fields, 'a caller that read nothing of its response is disconnected');
      // An orderly close would have the system offer the unread bytes again and again.
      if (socket instanceof TLSSocket) socket.destroy();
      else socket.resetAndDestroy();
    });
  });
}
