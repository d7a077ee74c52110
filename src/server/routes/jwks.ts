import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import type { PublishedKey } from '../../auth/jwks.js';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';

/** How long others may keep the answer. Short: who changes the key does not want to wait a day. */
const MAX_AGE_SECONDS = 300;

/**
 * The public key as a JWKS (RFC 7517), at the path of SYNC_AUTH_JWKS_URL; `{"keys":[]}` where authentication is off (OPAL
 * answers `{}`, which is no JWKS). Throws `config_invalid` for a path that cannot be one, or that another route has: add it
 * after all others.
 */
export function jwksRoutes(app: FastifyInstance, { path }: { path: string }, keys: readonly PublishedKey[]): void {
  if (!/^(\/[\w.~-]+)+$/.test(path)) {
    throw new SyncError(
      'config_invalid',
      `SYNC_AUTH_JWKS_URL must be a path like /.well-known/jwks.json (is ${JSON.stringify(path)})`,
    );
  }
  if (app.hasRoute({ method: 'GET', url: path })) {
    throw new SyncError('config_invalid', `SYNC_AUTH_JWKS_URL: ${path} is the path of something else`);
  }
  addRoute(
    app,
    {
      method: 'GET',
      path,
      access: 'everyone',
      tag: 'Tokens',
      summary: 'The public key that verifies tokens, as a JWKS',
      answers: {
        200: { description: 'The keys', schema: z.object({ keys: z.array(z.record(z.string(), z.unknown())) }) },
      },
    },
    ({ reply }) => reply.header('cache-control', `public, max-age=${MAX_AGE_SECONDS}`).send({ keys }),
  );
}
