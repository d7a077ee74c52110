import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { decodeJwt } from 'jose';
import type { PeerType } from '../../src/auth/caller.js';
import type { DeclaredRoute } from '../../src/http/declared-route.js';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { ALL_OFFERED } from '../support/authzen.js';
import { field, request } from '../support/http.js';
import {
  CLIENT_SETTINGS,
  createClient,
  createServer,
  loadSettings,
  SERVER_SETTINGS,
  silentLogger,
} from '../support/library.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/**
 * Who may call what with authentication on (design D36): a literal table, compared with the routes that the programs have, and
 * each route called by each kind of caller. A new route fails here until it stands in the table.
 */

type Row = 'everyone' | 'token' | 'master' | 'datasource' | 'listener' | 'datasource or listener';

const SERVER: Readonly<Record<string, Row>> = {
  'GET /': 'everyone',
  'GET /healthcheck': 'everyone',
  'GET /ready': 'everyone',
  'GET /.well-known/jwks.json': 'everyone',
  'GET /policy-data': 'everyone',
  'GET /openapi.json': 'everyone',
  'GET /docs': 'everyone',
  'POST /webhook': 'everyone', // by its secret
  'POST /token': 'master',
  'GET /policy': 'token',
  'GET /policy/source': 'datasource or listener',
  'GET /policy/files': 'datasource or listener',
  'GET /policy/diff': 'datasource or listener',
  'POST /policy/refresh': 'datasource',
  'GET /data/config': 'token',
  'POST /data/callback_report': 'token',
  'GET /loadlimit': 'token',
  'GET /data/log': 'datasource',
  'GET /data/documents': 'datasource or listener',
  'GET /data/updates': 'token',
  'POST /data/config': 'datasource',
  'POST /data/refresh': 'datasource',
  'GET /statistics': 'datasource or listener',
  'GET /stats': 'datasource or listener',
  'GET /pubsub_client_info': 'datasource or listener',
  'GET /clients': 'datasource or listener',
  'GET /clients/:id': 'datasource or listener',
  'POST /clients/:id/actions': 'datasource',
  'GET /instances': 'datasource or listener',
  'GET /trace/:id': 'datasource or listener',
  'GET /changes': 'datasource or listener',
  'GET /ui/events': 'datasource or listener',
  'GET /metrics': 'token',
  'GET /log-level': 'datasource or listener',
  'POST /log-level': 'datasource or listener',
  'GET /ui': 'everyone',
  'GET /ui/session': 'everyone',
  'POST /ui/session': 'everyone', // by a token in the body
  'DELETE /ui/session': 'everyone',
};

const CLIENT: Readonly<Record<string, Row>> = {
  'GET /': 'everyone',
  'GET /healthy': 'everyone',
  'GET /healthcheck': 'everyone',
  'GET /ready': 'everyone',
  'GET /live': 'everyone',
  'GET /openapi.json': 'everyone',
  'GET /docs': 'everyone',
  'GET /metrics': 'token',
  'GET /log-level': 'datasource or listener',
  'POST /log-level': 'datasource or listener',
  'GET /policy-store/config': 'listener',
  'POST /policy-updater/trigger': 'listener',
  'POST /data-updater/trigger': 'listener',
  'GET /callbacks': 'listener',
  'POST /callbacks': 'listener',
  'GET /callbacks/:key': 'listener',
  'DELETE /callbacks/:key': 'listener',
  'GET /position': 'listener',
  'POST /orphans/prune': 'listener',
  'GET /sync-server/connectivity': 'listener',
  'POST /sync-server/connectivity/enable': 'listener',
  'POST /sync-server/connectivity/disable': 'listener',
  'GET /opal-server/connectivity': 'listener',
  'POST /opal-server/connectivity/enable': 'listener',
  'POST /opal-server/connectivity/disable': 'listener',
  'GET /.well-known/authzen-configuration': 'everyone',
  'POST /access/v1/evaluation': 'listener',
  'POST /access/v1/evaluations': 'listener',
  'POST /access/v1/search/subject': 'listener',
  'POST /access/v1/search/resource': 'listener',
  'POST /access/v1/search/action': 'listener',
};

const CALLERS = ['nobody', 'nonsense', 'foreign', 'expired', 'client', 'datasource', 'listener'] as const;
type CallerKind = (typeof CALLERS)[number];

function mayCall(row: Row, caller: CallerKind): boolean {
  if (row === 'everyone') return true;
  if (row === 'master') return false;
  if (caller !== 'client' && caller !== 'datasource' && caller !== 'listener') return false;
  return row === 'token' || row.split(' or ').includes(caller);
}

/** The header of each caller; the tokens are of one server. */
async function headersOf(serverUrl: string, foreignUrl: string): Promise<Record<CallerKind, Record<string, string>>> {
  const short = await tokenOf(serverUrl, { type: 'datasource', ttl: 1 });
  const valid = async (type: PeerType) => bearer(await tokenOf(serverUrl, { type }));
  const headers = {
    nobody: {},
    nonsense: bearer('nonsense'),
    foreign: bearer(await tokenOf(foreignUrl, { type: 'datasource' })),
    expired: bearer(short),
    client: await valid('client'),
    datasource: await valid('datasource'),
    listener: await valid('listener'),
  };
  const endsMs = (decodeJwt(short).exp ?? 0) * 1000;
  await until(() => Date.now() > endsMs, { withinMs: 20_000, what: 'the short token has expired' });
  return headers;
}

async function startServer(env: Record<string, string>) {
  const folder = await tempDir();
  const { values } = loadSettings(SERVER_SETTINGS, { env: { SYNC_SERVER_BIND_PORT: '0', ...env } });
  const server = createServer({ ...values, stateDir: folder.path }, { log: silentLogger(), env: process.env });
  const { url } = await server.start();
  return {
    url,
    routes: server.routes,
    [Symbol.asyncDispose]: async () => {
      await server.stop();
      await folder[Symbol.asyncDispose]();
    },
  };
}

async function startClient(env: Record<string, string>) {
  const closed = 'http://127.0.0.1:9';
  const { values } = loadSettings(CLIENT_SETTINGS, {
    env: {
      SYNC_CLIENT_API_SERVER_PORT: '0',
      SYNC_SERVER_URL: closed,
      SYNC_POLICY_STORE_URL: closed,
      SYNC_INLINE_ENGINE_ENABLED: 'false',
      ...ALL_OFFERED,
      ...env,
    },
  });
  const client = createClient(values, { log: silentLogger(), env: process.env });
  const { url } = await client.start();
  return { url, routes: client.routes, [Symbol.asyncDispose]: () => client.stop() };
}

/** Routes as the table has them; the files of the two pages count as the page. */
function namesOf(routes: readonly DeclaredRoute[]): string[] {
  return routes
    .map(({ method, path }) => `${method} ${path}`)
    .filter((name) => !/^GET \/(?:docs|ui\/assets)\//.test(name));
}

async function callEach(
  url: string,
  table: Readonly<Record<string, Row>>,
  headers: Readonly<Partial<Record<CallerKind, object>>>,
) {
  for (const [name, row] of Object.entries(table)) {
    const [method = '', path = ''] = name.split(' ');
    for (const caller of CALLERS) {
      const own = headers[caller];
      if (own === undefined) continue;
      const what = `${name} by ${caller}`;
      const init = { method, headers: { 'content-type': 'application/json', ...own } };
      const answer = await request(
        `${url}${path.replace(/:\w+/g, 'x')}`,
        method === 'GET' ? init : { ...init, body: '{}' },
      );
      assert.equal(answer.status !== 401, mayCall(row, caller), `${what}: ${answer.status} ${answer.text}`);
      if (answer.status !== 401) continue;
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer', what);
      assert.equal(typeof field(answer.json, 'detail', 'error'), 'string', what);
      assert.doesNotMatch(answer.text, /nonsense|eyJ/, what);
    }
  }
}

describe('with authentication on', () => {
  const pair = keyPair();
  let server: Awaited<ReturnType<typeof startServer>>;
  let headers: Record<CallerKind, Record<string, string>>;
  before(async () => {
    server = await startServer(withKeys(pair));
    await using foreign = await startServer(withKeys());
    headers = await headersOf(server.url, foreign.url);
  });
  after(() => server?.[Symbol.asyncDispose]());

  it('server: the table has every route, and each route takes exactly whom the table says', async () => {
    assert.deepEqual(namesOf(server.routes).sort(), Object.keys(SERVER).sort());
    await callEach(server.url, SERVER, headers);
  });

  it('client: the table has every route, and each route takes exactly whom the table says', async () => {
    await using client = await startClient({ SYNC_AUTH_PUBLIC_KEY: pair.publicKey });
    assert.deepEqual(namesOf(client.routes).sort(), Object.keys(CLIENT).sort());
    await callEach(client.url, CLIENT, headers);
  });
});

it('with authentication off nothing asks for a token', async () => {
  await using server = await startServer({});
  await using client = await startClient({});
  const open = (table: Readonly<Record<string, Row>>) =>
    Object.fromEntries(Object.keys(table).map((name): [string, Row] => [name, 'everyone']));
  await callEach(server.url, open(SERVER), { nobody: {} });
  await callEach(client.url, open(CLIENT), { nobody: {} });
});
