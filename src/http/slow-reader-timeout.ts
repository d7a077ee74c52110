import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { FastifyInstance } from 'fastify';
import type { Logger } from '../lib/log.js';

/**
 * Cuts off callers that do not read (design D4): one that takes nothing of its answer for `silenceMs` would
 * otherwise keep its connection, and the answer in memory, for as long as it likes. Whoever takes something goes on, however
 * slow. What counts is what the system takes for it, which is looked at once in that time: the cut comes after one to
 * two times of it.
 */
export function useSlowReaderTimeout(app: FastifyInstance, silenceMs: number, log: Logger): void {
  // Not before there is an answer: until then it is the caller that waits. Node itself sets the time of a kept connection
  // once the answer has gone out.
  app.addHook('onSend', async (request, reply) => {
    const { socket } = request.raw;
    if (!(socket instanceof Socket)) return; // a call from within the process
    socket.setTimeout(silenceMs);
    reply.raw.once('timeout', () => {
      const fields = { address: socket.remoteAddress, method: request.method, path: request.routeOptions.url };
      log.info(fields, 'a caller that took nothing of its answer is cut off');
      // In order, the system would go on offering it what it does not take.
      if (socket instanceof TLSSocket) socket.destroy();
      else socket.resetAndDestroy();
    });
  });
}
