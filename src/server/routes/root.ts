import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';

/** `GET /`: says that the process answers (protocol-facts 2.1). Open to everyone (design 9.11). */
export function rootRoutes(app: FastifyInstance): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/',
      access: 'everyone',
      tag: 'Health',
      summary: 'Says that the process answers',
      answers: { 200: { description: 'It does', schema: z.object({ status: z.literal('ok') }) } },
    },
    () => ({ status: 'ok' }),
  );
}
