import type { FastifyInstance } from 'fastify';
import { type Logger, redactUrl } from '../lib/log.js';
import type { ApiInfo } from './openapi.js';
import { addRoute } from './route.js';

/**
 * `GET /openapi.json` and the documentation page at `/docs`. Call it after every other route was added. What makes the
 * document and the page is loaded at the first request for it: a program that nobody asks pays nothing.
 */
export function docsRoutes(app: FastifyInstance, info: ApiInfo, deps: { log: Logger }): void {
  let document: Promise<object> | undefined;
  const makeDocument = (): Promise<object> => {
    document ??= import('./openapi.js').then(({ openApiDocument }) => openApiDocument(app.declaredRoutes, info));
    return document;
  };
  let page: Promise<FastifyInstance> | undefined;

  addRoute(
    app,
    {
      method: 'GET',
      path: '/openapi.json',
      access: 'everyone',
      tag: 'Documentation',
      summary: 'This API as an OpenAPI 3.1 document',
      answers: { 200: { description: 'The document' } },
    },
    makeDocument,
  );

  for (const path of ['/docs', '/docs/*']) {
    addRoute(
      app,
      {
        method: 'GET',
        path,
        access: 'everyone',
        tag: 'Documentation',
        summary: 'The documentation page',
        answers: { 200: { description: 'The page and its parts' } },
      },
      async ({ request, reply }) => {
        page ??= makeDocument().then(async (ready) => (await import('./docs-page.js')).createDocsPage(ready));
        const ready = await page;
        const answer = await ready.inject({ method: 'GET', url: request.url });
        deps.log.debug({ path: redactUrl(request.url), status: answer.statusCode }, 'documentation page');
        for (const name of ['content-type', 'location', 'cache-control', 'content-security-policy']) {
          const value = answer.headers[name];
          if (value !== undefined) reply.header(name, value);
        }
        return reply.code(answer.statusCode).send(answer.rawPayload);
      },
    );
  }
  app.addHook('onClose', async () => {
    await (await page)?.close();
  });
}
