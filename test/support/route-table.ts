import { decodeJwt } from 'jose';
import type { Holders, PeerType } from '../../src/auth/caller.js';
import type { DeclaredRoute } from '../../src/http/declared-route.js';
import { bearer, MASTER_TOKEN, tokenOf } from './auth.js';
import { until } from './until.js';

/**
 * Who may call a route with authentication on, and what callers see of it who are not told everything: of a route for everyone what
 * callers without a token see, and which tokens without limits are told everything; of any other what a token sees that is limited to
 * topics or paths.
 */
export type Row =
  | 'everyone: all'
  | `everyone: words, ${'token' | 'datasource or listener'}: all`
  | 'master: all'
  | `${'token' | 'datasource' | 'listener' | 'datasource or listener'}: ${'all' | 'own' | 'nothing'}`;

/** Every route of a server. */
export const SERVER_ROUTES: Readonly<Record<string, Row>> = {
  'GET /': 'everyone: all',
  'GET /healthcheck': 'everyone: words, datasource or listener: all',
  'GET /ready': 'everyone: words, datasource or listener: all',
  'GET /.well-known/jwks.json': 'everyone: all',
  'GET /policy-data': 'everyone: all',
  'GET /openapi.json': 'everyone: all',
  'GET /docs': 'everyone: all',
  'POST /webhook': 'everyone: words, datasource or listener: all', // by its secret
  'POST /token': 'master: all',
  'GET /policy': 'token: all',
  'GET /policy/source': 'datasource or listener: own',
  'GET /policy/files': 'datasource or listener: all',
  'GET /policy/diff': 'datasource or listener: all',
  'POST /policy/refresh': 'datasource: all',
  'GET /data/config': 'token: own',
  'POST /data/callback_report': 'token: all',
  'GET /loadlimit': 'token: all',
  'GET /data/log': 'datasource: own',
  'GET /data/documents': 'datasource or listener: own',
  'GET /data/updates': 'token: own',
  'POST /data/config': 'datasource: own',
  'POST /data/refresh': 'datasource: own',
  'GET /statistics': 'datasource or listener: own',
  'GET /stats': 'datasource or listener: own',
  'GET /pubsub_client_info': 'datasource or listener: own',
  'GET /clients': 'datasource or listener: own',
  'GET /clients/:id': 'datasource or listener: own',
  'POST /clients/:id/actions': 'datasource: own',
  'GET /instances': 'datasource or listener: own',
  'GET /trace/:id': 'datasource or listener: own',
  'GET /changes': 'datasource or listener: own',
  'GET /ui/events': 'datasource or listener: own',
  'GET /metrics': 'token: nothing',
  'GET /log-level': 'datasource or listener: nothing',
  'POST /log-level': 'datasource or listener: nothing',
  'GET /ui': 'everyone: all',
  'GET /ui/session': 'everyone: all',
  'POST /ui/session': 'everyone: all', // by a token in the body
  'DELETE /ui/session': 'everyone: all',
};

/** Every route of a client. */
export const CLIENT_ROUTES: Readonly<Record<string, Row>> = {
  'GET /': 'everyone: words, token: all',
  'GET /healthy': 'everyone: words, token: all',
  'GET /healthcheck': 'everyone: words, token: all',
  'GET /ready': 'everyone: words, token: all',
  'GET /live': 'everyone: all',
  'GET /openapi.json': 'everyone: all',
  'GET /docs': 'everyone: all',
  'GET /metrics': 'token: nothing',
  'GET /log-level': 'datasource or listener: nothing',
  'POST /log-level': 'datasource or listener: nothing',
  'GET /policy-store/config': 'listener: nothing',
  'POST /policy-updater/trigger': 'listener: nothing',
  'POST /data-updater/trigger': 'listener: nothing',
  'GET /callbacks': 'listener: nothing',
  'POST /callbacks': 'listener: nothing',
  'GET /callbacks/:key': 'listener: nothing',
  'DELETE /callbacks/:key': 'listener: nothing',
  'GET /position': 'listener: own',
  'POST /orphans/prune': 'listener: nothing',
  'GET /sync-server/connectivity': 'listener: all',
  'POST /sync-server/connectivity/enable': 'listener: nothing',
  'POST /sync-server/connectivity/disable': 'listener: nothing',
  'GET /opal-server/connectivity': 'listener: all',
  'POST /opal-server/connectivity/enable': 'listener: nothing',
  'POST /opal-server/connectivity/disable': 'listener: nothing',
  'GET /.well-known/authzen-configuration': 'everyone: all',
  'POST /access/v1/evaluation': 'listener: nothing',
  'POST /access/v1/evaluations': 'listener: nothing',
  'POST /access/v1/search/subject': 'listener: nothing',
  'POST /access/v1/search/resource': 'listener: nothing',
  'POST /access/v1/search/action': 'listener: nothing',
};

/** The row of a route as its declaration has it. */
export function rowOf({ method, path, ...route }: DeclaredRoute): Row {
  if (`${method} ${path}` === 'POST /token') return 'master: all'; // its declaration cannot say so
  const who = (holders: Holders): string => (holders === 'token' ? holders : [...holders].sort().join(' or '));
  if (route.access !== 'everyone') return `${who(route.access)}: ${route.limited}` as Row;
  return route.strangers === 'all' ? 'everyone: all' : (`everyone: words, ${who(route.insiders)}: all` as Row);
}

/** The rows of routes; the files of the two pages count as the page. */
export function rowsOf(routes: readonly DeclaredRoute[]): Record<string, Row> {
  const rows = routes.map((route) => [`${route.method} ${route.path}`, rowOf(route)] as const);
  return Object.fromEntries(rows.filter(([name]) => !/^GET \/(?:docs|ui\/assets)\//.test(name)));
}

/** A caller of the walk. */
export interface WalkCaller {
  readonly headers: Readonly<Record<string, string>>;
  /** Undefined: it has no token that counts. */
  readonly type?: PeerType;
  readonly isLimited?: boolean;
}

/** The limits that a token can have; each is one of topic and path `acme`, where it permits something. */
const LIMITS = {
  'of topics': { permitted_topics: ['acme'] },
  'of paths': { permitted_paths: ['/acme'] },
  'of both': { permitted_topics: ['acme'], permitted_paths: ['/acme'] },
  'of nothing': { permitted_topics: [] },
} as const;

/** Every kind of caller, by name. `foreignUrl`: a server with other keys. */
export async function walkCallers(serverUrl: string, foreignUrl: string): Promise<Record<string, WalkCaller>> {
  const short = await tokenOf(serverUrl, { type: 'datasource', ttl: 1 });
  const callers: Record<string, WalkCaller> = {
    nobody: { headers: {} },
    nonsense: { headers: bearer('nonsense') },
    foreign: { headers: bearer(await tokenOf(foreignUrl, { type: 'datasource' })) },
    expired: { headers: bearer(short) },
    master: { headers: bearer(MASTER_TOKEN) },
  };
  for (const type of ['client', 'datasource', 'listener'] as const) {
    callers[type] = { headers: bearer(await tokenOf(serverUrl, { type })), type };
    for (const [name, claims] of Object.entries(LIMITS)) {
      const headers = bearer(await tokenOf(serverUrl, { type, claims }));
      callers[`${type} ${name}`] = { headers, type, isLimited: true };
    }
  }
  const endsMs = (decodeJwt(short).exp ?? 0) * 1000;
  await until(() => Date.now() > endsMs, { withinMs: 20_000, what: 'the short token has expired' });
  return callers;
}

/** Whether a caller is let in by a row. */
export function mayCall(row: Row, name: string, { type, isLimited = false }: WalkCaller): boolean {
  const [who = '', what] = row.split(': ');
  if (who === 'everyone') return true;
  if (who === 'master') return name === 'master';
  if (type === undefined || (who !== 'token' && !who.split(' or ').includes(type))) return false;
  return !isLimited || what !== 'nothing';
}
