import type { FastifyInstance, FastifyReply } from 'fastify';
import { SyncError } from '../lib/errors.js';
import { DOCS_CSP, type DocsPart, docsPage, docsPart } from './docs-page.js';
import type { ApiInfo } from './openapi.js';
import { addRoute } from './route.js';

/**
 * `GET /openapi.json` and the documentation page at `/docs`. Add them after every other route. The
 * document is made at the first request for it. `isGuarded`: authentication is on.
 */
export function docsRoutes(app: FastifyInstance, info: ApiInfo, isGuarded: boolean): void {
  let document: Promise<object> | undefined;

  addRoute(
    app,
    {
      method: 'GET',
      path: '/openapi.json',
      access: 'everyone',
      strangers: 'all',
      tag: 'Documentation',
      summary: 'This API as an OpenAPI 3.1 document',
      responses: { 200: { description: 'The document', contentType: 'application/json' } },
    },
    () => {
      document ??= import('./openapi.js').then(({ openApiDocument }) =>
        openApiDocument(app.declaredRoutes, info, isGuarded),
      );
      return document;
    },
  );

  addRoute(
    app,
    {
      method: 'GET',
      path: '/docs',
      access: 'everyone',
      strangers: 'all',
      tag: 'Documentation',
      summary: 'The documentation page',
      responses: {
        200: { description: 'The page', contentType: 'text/html' },
        308: { description: 'Redirect to the path without the slash at the end' },
      },
    },
    ({ request, reply }) => {
      // The page names its parts relative to itself.
      if (/^[^?]*\/(?:\?|$)/.test(request.url)) return reply.code(308).header('location', '../docs').send();
      reply.header('content-security-policy', DOCS_CSP).header('cache-control', 'no-cache');
      return send(reply, docsPage(info.title));
    },
  );

  addRoute(
    app,
    {
      method: 'GET',
      path: '/docs/:part',
      access: 'everyone',
      strangers: 'all',
      tag: 'Documentation',
      summary: 'A part of the documentation page',
      responses: {
        200: { description: 'The part', contentType: '*/*' },
        404: { description: 'The page has no such part' },
      },
    },
    async ({ request, reply }) => {
      const { part: name = '' } = request.params as { part?: string };
      const part = await docsPart(name);
      if (part === undefined) throw new SyncError('not_found', `the documentation page has no part ${name}`);
      return send(reply.header('cache-control', 'public, max-age=3600'), part);
    },
  );
}

function send(reply: FastifyReply, { type, content }: DocsPart): FastifyReply {
  return reply.type(type).header('x-content-type-options', 'nosniff').send(content);
}
