import swagger, { type StaticDocumentSpec } from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import fastify, { type FastifyInstance } from 'fastify';

/**
 * The documentation page for one OpenAPI document, as an app of its own that listens nowhere: it is made when the first
 * reader comes. All its parts are served from here, nothing is loaded from elsewhere.
 */
export async function createDocsPage(document: object): Promise<FastifyInstance> {
  const app = fastify({ logger: false });
  await app.register(swagger, {
    mode: 'static',
    specification: { document: document as StaticDocumentSpec['document'] },
  });
  await app.register(swaggerUi, { routePrefix: '/docs', staticCSP: true });
  await app.ready();
  return app;
}
