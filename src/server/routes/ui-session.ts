import type { FastifyInstance, FastifyRequest } from 'fastify';
import * as z from 'zod';
import { type Caller, expiresAtMs } from '../../auth/caller.js';
import { TokenExpired, tokenRefused } from '../../auth/claims.js';
import type { PageSessions } from '../../auth/page-session.js';
import type { ServerSecurity } from '../../auth/security.js';
import { equalsSecret } from '../../auth/timing-safe-equal.js';
import { pageCaller, refuseOtherPages, sessionClearCookies, sessionSetCookie } from '../../http/page-caller.js';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import type { Logger, Secret } from '../../lib/observe/log.js';
import { docPathText } from '../../wire/doc-path.js';
import type { UiSession } from '../../wire/fleet.js';

/** Maximum size of a request to sign in: tokens are shorter, since headers are. */
const BODY_LIMIT_BYTES = 16 * 1024;

const signIn = z.strictObject({
  token: z.string().max(BODY_LIMIT_BYTES).describe('A token of type listener or datasource, as POST /token issues it.'),
});

const loadSession = async () => (await import('../../wire/fleet.js')).uiSession;

/** Dependencies of {@link uiSessionRoutes}. */
export interface UiSessionDeps {
  readonly security: Pick<ServerSecurity, 'authenticator' | 'pageSessions'>;
  readonly masterToken: Secret | undefined;
  readonly version: string;
  /** SYNC_ENVIRONMENT. */
  readonly environment: string | undefined;
  /** The address of a caller, for the log. */
  readonly addressOf: (request: FastifyRequest['raw']) => string;
  readonly log: Logger;
}

/**
 * `/ui/session`: exchanges a token for a cookie that the live page sends instead of it, says who is
 * signed in, and signs out. The page itself never sees the cookie. Without authentication everyone
 * is signed in.
 */
export function uiSessionRoutes(app: FastifyInstance, deps: UiSessionDeps): void {
  const { security, log } = deps;
  const { pageSessions } = security;

  addRoute(
    app,
    {
      method: 'GET',
      path: '/ui/session',
      access: 'everyone',
      strangers: 'all',
      tag: 'Live page',
      summary: 'Who is signed in to the live page',
      responses: { 200: { description: 'The session, or that there is none', schema: loadSession } },
    },
    async ({ request, reply }) => {
      reply.header('cache-control', 'no-store');
      return answerOf(deps, pageSessions && (await presentCaller(request, security, pageSessions)));
    },
  );

  addRoute(
    app,
    {
      method: 'POST',
      path: '/ui/session',
      access: 'everyone',
      strangers: 'all',
      tag: 'Live page',
      summary: 'Sign in to the live page with a token',
      description:
        'Sets a cookie (HttpOnly, SameSite=Strict) until the token ends, for 8 hours at most. For the page itself: it requires the ' +
        'header `x-sync-ui: 1` and an `Origin`, or `Sec-Fetch-Site`, of this address. Other callers send the token in `Authorization`.',
      body: signIn,
      bodyLimitBytes: BODY_LIMIT_BYTES,
      screen: ({ raw }) => refuseOtherPages(raw),
      responses: {
        200: { description: 'The session', schema: loadSession },
        401: { description: 'The token is not valid, or has ended' },
        403: { description: 'The token is of another kind, or another page asks' },
      },
    },
    async ({ request, reply, body }) => {
      reply.header('cache-control', 'no-store');
      if (pageSessions === undefined) return answerOf(deps, undefined);
      const caller = await callerOfToken(body.token.trim(), deps);
      const { value, endsAtMs } = pageSessions.seal(caller);
      const session = pageSessions.open(value);
      reply.header('set-cookie', sessionSetCookie(request.raw, value, Math.floor((endsAtMs - Date.now()) / 1000)));
      const fields = { subject: session.subject, type: session.peerType, ends_at: new Date(endsAtMs).toISOString() };
      log.info({ ...fields, address: deps.addressOf(request.raw) }, 'somebody has signed in to the live page');
      return answerOf(deps, session);
    },
  );

  addRoute(
    app,
    {
      method: 'DELETE',
      path: '/ui/session',
      access: 'everyone',
      strangers: 'all',
      tag: 'Live page',
      summary: 'Sign out of the live page',
      description: 'Has the browser forget the cookie. Requires the same headers as signing in.',
      screen: ({ raw }) => refuseOtherPages(raw),
      responses: {
        200: { description: 'That nobody is signed in', schema: loadSession },
        403: { description: 'Another page asks' },
      },
    },
    ({ reply }) => {
      reply.header('cache-control', 'no-store').header('set-cookie', sessionClearCookies());
      return answerOf(deps, undefined);
    },
  );
}

/** The session of a server without authentication. */
const OPEN: Omit<UiSession, 'version'> = {
  ...{ signed_in: true, authentication: false, role: 'datasource', subject: null },
  ...{ topics: null, paths: null, ends_at: null },
};

function answerOf({ security, version, environment }: UiSessionDeps, caller: Caller | undefined): UiSession {
  return { ...(security.pageSessions === undefined ? OPEN : sessionOf(caller)), version, environment };
}

function sessionOf(caller: Caller | undefined): Omit<UiSession, 'version'> {
  const { peerType = undefined, subject = null, permittedTopics, permittedPaths } = caller ?? {};
  const role = peerType === 'listener' || peerType === 'datasource' ? peerType : null;
  return {
    signed_in: role !== null,
    authentication: true,
    role,
    subject,
    topics: permittedTopics === undefined ? null : [...permittedTopics],
    paths: permittedPaths === undefined ? null : permittedPaths.map(docPathText),
    ends_at: (caller && expiresAtMs(caller)) ?? null,
  };
}

/** Who a request is from; undefined: nobody is signed in. */
async function presentCaller(
  { raw }: FastifyRequest,
  { authenticator }: Pick<ServerSecurity, 'authenticator'>,
  sessions: PageSessions,
): Promise<Caller | undefined> {
  const { authorization } = raw.headers;
  try {
    return authorization === undefined ? pageCaller(raw, sessions) : await authenticator.authenticate(authorization);
  } catch (error) {
    if (error instanceof SyncError && error.code === 'unauthorized') return undefined;
    throw error;
  }
}

/** Who a pasted token is for. Rejects with a sentence that has no part of the token. */
async function callerOfToken(token: string, { security, masterToken }: UiSessionDeps): Promise<Caller> {
  try {
    return await security.authenticator.authenticate(/^bearer /i.test(token) ? token : `Bearer ${token}`);
  } catch (error) {
    if (error instanceof TokenExpired) {
      const ended = new Date(error.endedAtMs).toISOString().slice(0, 16).replace('T', ' ');
      throw tokenRefused(`This token has ended (${ended} UTC). Ask for a new one.`);
    }
    if (!(error instanceof SyncError) || error.code !== 'unauthorized') throw error;
    if (masterToken !== undefined && equalsSecret(token, masterToken)) {
      throw tokenRefused(
        'This is the master token, which only issues tokens. Have it issue one of kind listener or datasource.',
      );
    }
    throw tokenRefused('The server does not know this token.');
  }
}
