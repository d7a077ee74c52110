import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { BundleService, EncodedBundle } from '../bundle/bundle-service.js';

/** What the policy route needs. */
export interface PolicyRoutesDeps {
  bundles: BundleService;
}

/**
 * `GET /policy?path=a&path=b&base_hash=...` (spec Endpoints; protocol-facts 2.2). Other parameters mean nothing. Answers with
 * an entity tag, 304 to a caller that has it, and compressed where the caller takes gzip. Errors: see {@link BundleService}.
 */
export function policyRoutes(app: FastifyInstance, deps: PolicyRoutesDeps): void {
  app.get('/policy', async (request, reply) => {
    const query = request.query as Record<string, string | string[] | undefined>;
    const bundle = await deps.bundles.get({
      directories: [query.path ?? []].flat(),
      baseHash: [query.base_hash ?? []].flat().at(-1),
    });
    const encoded = takesGzip(request) ? bundle.gzip : undefined;
    const etag = encoded === undefined ? bundle.etag : gzipTag(bundle);
    reply.header('etag', etag).header('vary', 'accept-encoding').header('cache-control', 'no-cache');
    if (hasAlready(request, bundle)) return reply.code(304).send();
    if (encoded !== undefined) reply.header('content-encoding', 'gzip');
    return reply.type('application/json').send(encoded ?? bundle.json);
  });
}

/** Other bytes need another tag (RFC 9110 section 8.8.3). */
function gzipTag(bundle: EncodedBundle): string {
  return bundle.etag.replace(/"$/, '-gzip"');
}

/** If-None-Match, compared weakly: both encodings are the same bundle. */
function hasAlready(request: FastifyRequest, bundle: EncodedBundle): boolean {
  const tags = (request.headers['if-none-match'] ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags.some((tag) => tag === '*' || tag === bundle.etag || tag === gzipTag(bundle));
}

/** True when Accept-Encoding names gzip, or anything, and does not give it a weight of 0. */
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
