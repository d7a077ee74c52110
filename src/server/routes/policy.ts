import type { FastifyInstance, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { holdsTag } from '../../http/ui-files.js';
import { policyBundle } from '../../wire/bundle.js';
import { PROTOCOL_HEADER } from '../../wire/frames.js';
import type { EncodedBundle, PolicyBundles } from '../policy/bundle/policy-bundles.js';
import type { Policy } from '../policy/policy.js';

const repeatable = z.union([z.string(), z.array(z.string()).max(1_000)]);
const policyQuery = z.object({
  path: repeatable.optional().describe('Directory of the repository; repeatable. None: the whole repository.'),
  base_hash: repeatable.optional().describe('Commit that the caller holds: the bundle is a delta from it.'),
});

/**
 * `GET /policy?path=a&path=b&base_hash=...` (specification "Sync server"; opal-protocol P2.2).
 * Ignores other parameters. Responds with an entity tag, with 304 to a matching If-None-Match, and
 * with gzip if the caller accepts it. Errors: see {@link PolicyBundles} and
 * {@link PolicyFreshness}.
 */
export function policyRoutes(app: FastifyInstance, deps: Pick<Policy, 'bundles' | 'freshness' | 'parentFor'>): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/policy',
      access: 'token',
      limited: 'all',
      tag: 'Policy',
      summary: 'Policy bundle, complete or as a delta',
      description:
        'With base_hash the bundle is a delta whose old_hash is that commit. It is complete (old_hash is null, and it replaces ' +
        'everything that the caller holds) if the base is unknown, if a .manifest that applies has changed, or if the last data file ' +
        'of a folder was deleted while a folder above or below it has data.',
      query: policyQuery,
      responses: {
        200: { description: 'The bundle', schema: policyBundle },
        304: { description: 'Not modified (If-None-Match)' },
        404: {
          description: 'A directory does not exist. For PolicySync clients it counts as empty, and the bundle names it',
        },
        503: {
          description: 'The policy source has not been fetched yet, or other server instances are ahead: retry',
        },
      },
    },
    async ({ query, request, reply }) => {
      const baseHash = [query.base_hash ?? []].flat().at(-1);
      const isOurs = request.headers[PROTOCOL_HEADER] !== undefined;
      await deps.freshness.check(baseHash, isOurs);
      const bundle = await deps.bundles.get({
        directories: [query.path ?? []].flat(),
        baseHash,
        allowsMissing: isOurs,
        turn: app.turnOf(request),
      });
      reply.header('vary', `accept-encoding, ${PROTOCOL_HEADER}`).header('cache-control', 'no-cache');
      const traceparent = deps.parentFor?.(bundle, baseHash);
      if (traceparent !== undefined) reply.header('traceparent', traceparent);
      const known = tagOfCaller(request, bundle);
      if (known !== undefined) return reply.header('etag', known).code(304).send();
      const encoded = takesGzip(request) ? await bundle.gzip() : undefined;
      reply.header('etag', encoded === undefined ? bundle.etag : gzipTag(bundle));
      if (encoded !== undefined) reply.header('content-encoding', 'gzip');
      return reply.type('application/json').send(encoded ?? bundle.json);
    },
  );
}

/** Different bytes need a different tag (RFC 9110 section 8.8.3). */
function gzipTag(bundle: EncodedBundle): string {
  return bundle.etag.replace(/"$/, '-gzip"');
}

/** The tag of If-None-Match that fits this bundle in either encoding (weak comparison). */
function tagOfCaller(request: FastifyRequest, bundle: EncodedBundle): string | undefined {
  const header = request.headers['if-none-match'];
  return [bundle.etag, gzipTag(bundle)].find((tag) => holdsTag(header, tag));
}

/** Whether Accept-Encoding contains gzip or `*` with a weight above 0. */
function takesGzip(request: FastifyRequest): boolean {
  const accepted = [request.headers['accept-encoding'] ?? []].flat().join(',');
  const weights = new Map<string, number>();
  for (const item of accepted.split(',')) {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
    weights.set(name, Number(weight));
  }
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}
