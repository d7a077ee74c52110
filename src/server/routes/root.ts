import type { FastifyInstance } from 'fastify';

/** `GET /`: says that the process answers (protocol-facts 2.1). Open to everyone (design 9.11). */
export function rootRoutes(app: FastifyInstance): void {
  app.get('/', async () => ({ status: 'ok' }));
}
