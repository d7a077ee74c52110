import { randomUUID } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { bearerToken, PEER_TYPES } from '../../auth/caller.js';
import { isPathList, isTopicList, RESERVED_CLAIMS, tokenRefused } from '../../auth/claims.js';
import type { TokenIssuer } from '../../auth/issue.js';
import type { PublishedKey } from '../../auth/jwks.js';
import { equalsSecret } from '../../auth/timing-safe-equal.js';
import { hexOf, isTokenName, isUuid, MAX_TOKEN_NAME, subjectOfName } from '../../auth/token-name.js';
import { parseTtl } from '../../auth/ttl.js';
import { parseBody, readJsonBody } from '../../http/json-body.js';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import type { Secret } from '../../lib/observe/log.js';
import { dict } from '../../wire/lists.js';
import { pythonDatetime } from '../../wire/python-datetime.js';

const DAY_SECONDS = 86_400;
/** Default of OPAL (opal-protocol P3.3). */
const DEFAULT_TTL_SECONDS = 365 * DAY_SECONDS;
/** Maximum size of a token request. */
const BODY_LIMIT_BYTES = 64 * 1024;
/** Ten years. Only new keys revoke a token. */
const MAX_TTL_SECONDS = 3660 * DAY_SECONDS;

const ttl = z
  .union([z.number(), z.string()])
  .transform((value, context) => {
    const seconds = parseTtl(value);
    if (seconds !== undefined && seconds >= 1 && seconds <= MAX_TTL_SECONDS) return seconds;
    const message =
      seconds === undefined
        ? 'must be a duration: seconds, HH:MM:SS, "D days, HH:MM:SS" or ISO 8601 as P1DT2H'
        : `must be from 1 second to ${MAX_TTL_SECONDS / DAY_SECONDS} days`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  })
  .default(DEFAULT_TTL_SECONDS)
  .describe('Lifetime. Default: 365 days.');

const claims = dict(z.unknown(), { max: 1_000 })
  .superRefine((value, context) => {
    for (const name of RESERVED_CLAIMS) {
      if (!Object.hasOwn(value, name)) continue;
      context.addIssue({ code: 'custom', path: [name], message: 'is set by the server' });
    }
    if (value.permitted_topics !== undefined && !isTopicList(value.permitted_topics)) {
      context.addIssue({ code: 'custom', path: ['permitted_topics'], message: 'must be a list of topics' });
    }
    if (value.permitted_paths !== undefined && !isPathList(value.permitted_paths)) {
      context.addIssue({
        code: 'custom',
        path: ['permitted_paths'],
        message: 'must be a list of paths that start with /',
      });
    }
  })
  .default({})
  .describe(
    'Custom claims. `permitted_topics` (a list) limits the topics of the holder, `permitted_paths` where it may publish.',
  );

/**
 * Body of `POST /token` (specification "AccessTokenRequest"). Rejects unknown members: a misspelled
 * `claims` would lift all limits.
 */
const tokenRequest = z
  .strictObject({
    id: z
      .string()
      .refine(
        (text) => isUuid(text) || isTokenName(text),
        `must be a name (1 to ${MAX_TOKEN_NAME} printable characters, without spaces at its ends) or a UUID`,
      )
      .optional()
      .describe('Who holds the token: a name, which is shown wherever the holder is, or a UUID. Default: a new UUID.'),
    type: z.enum(PEER_TYPES).default('client'),
    ttl,
    claims,
  })
  .refine(({ id, claims: { name } }) => id === undefined || isUuid(id) || name === undefined, {
    path: ['claims', 'name'],
    message: 'is set by the server where id is a name',
  });

const tokenAnswer = z.object({
  token: z.string(),
  type: z.literal('bearer'),
  details: z.object({
    id: z.string(),
    type: z.enum(PEER_TYPES),
    expired: z.string().describe('UTC, without a zone.'),
    claims: z.record(z.string(), z.unknown()),
  }),
});

/**
 * `POST /token` (specification "AccessTokenRequest"; opal-protocol P3.3): signs a token for callers
 * with the master token. Returns 503 without keys and 403 without a master token
 * (`tokens_not_issued`): unlike OPAL, nobody may issue tokens by default.
 */
export function tokenRoutes(
  app: FastifyInstance,
  { masterToken }: { readonly masterToken: Secret | undefined },
  { issuer }: { issuer: TokenIssuer | undefined },
): void {
  const declaration = {
    method: 'POST',
    path: '/token',
    // The master token is not a JWT: `screen` checks it before the body is read.
    access: 'everyone',
    strangers: 'all',
    tag: 'Tokens',
    summary: 'Issue a token',
    description: 'Requires `Authorization: Bearer <SYNC_AUTH_MASTER_TOKEN>`.',
    body: tokenRequest,
    rawBody: true,
    bodyLimitBytes: BODY_LIMIT_BYTES,
    screen: ({ headers }: FastifyRequest) => {
      mustIssue(issuer);
      checkMaster(headers.authorization, masterToken);
    },
    responses: {
      200: { description: 'The token', schema: tokenAnswer },
      401: { description: 'The master token is missing or wrong' },
      403: { description: 'The server has no master token' },
      503: { description: 'The server has no keys' },
    },
  } as const;
  addRoute(app, declaration, async ({ request, raw }) => {
    const asked = parseBody(tokenRequest, await readJsonBody(request.headers['content-type'], raw));
    const id = asked.id ?? randomUUID();
    const { token, expiresAtMs } = await mustIssue(issuer).issue({ ...asked, id, ttlSeconds: asked.ttl });
    return {
      token,
      type: 'bearer',
      details: {
        id: dashed(isUuid(id) ? hexOf(id) : subjectOfName(id)),
        type: asked.type,
        expired: pythonDatetime(expiresAtMs),
        claims: { peer_type: asked.type, ...(isUuid(id) ? {} : { name: id }), ...asked.claims },
      },
    };
  });
}

function mustIssue(issuer: TokenIssuer | undefined): TokenIssuer {
  if (issuer !== undefined) return issuer;
  const text = 'sync server was not configured with security, cannot generate tokens!';
  throw new SyncError('tokens_not_issued', text);
}

function checkMaster(authorization: string | undefined, masterToken: Secret | undefined): void {
  if (masterToken === undefined) {
    const text = 'no master token is configured, so this server issues no tokens';
    throw new SyncError('tokens_not_issued', text, { status: 403, detail: { error: text } });
  }
  if (authorization === undefined) throw tokenRefused('Authorization header is required!');
  const given = bearerToken(authorization);
  if (given === undefined || !equalsSecret(given, masterToken)) {
    throw tokenRefused('unauthorized to access this endpoint!');
  }
}

/** A UUID in its usual form, of its hex digits. */
function dashed(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/** Short, so that a new key takes effect soon. */
const MAX_AGE_SECONDS = 300;

/**
 * Serves the public key as a JWKS (RFC 7517) at the path of SYNC_AUTH_JWKS_URL; `{"keys":[]}` if
 * authentication is off (OPAL returns `{}`, which is not a JWKS). Throws `config_invalid` for an
 * invalid path, or one that another route has: add it after all others.
 */
export function jwksRoutes(app: FastifyInstance, { path }: { path: string }, keys: readonly PublishedKey[]): void {
  if (!/^(\/[\w.~-]+)+$/.test(path)) {
    throw new SyncError(
      'config_invalid',
      `SYNC_AUTH_JWKS_URL must be a path like /.well-known/jwks.json (is ${JSON.stringify(path)})`,
    );
  }
  if (app.hasRoute({ method: 'GET', url: path })) {
    throw new SyncError('config_invalid', `SYNC_AUTH_JWKS_URL: ${path} is the path of another route`);
  }
  addRoute(
    app,
    {
      method: 'GET',
      path,
      access: 'everyone',
      strangers: 'all',
      tag: 'Tokens',
      summary: 'The public key that verifies tokens, as a JWKS',
      responses: {
        200: { description: 'The keys', schema: z.object({ keys: z.array(z.record(z.string(), z.unknown())) }) },
      },
    },
    ({ reply }) => reply.header('cache-control', `public, max-age=${MAX_AGE_SECONDS}`).send({ keys }),
  );
}
