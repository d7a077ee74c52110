import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { keyPair, withKeys } from '../support/auth.js';
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
import {
  CLIENT_ROUTES,
  mayCall,
  type Row,
  rowsOf,
  SERVER_ROUTES,
  type WalkCaller,
  walkCallers,
} from '../support/route-table.js';
import { tempDir } from '../support/temp-dir.js';

/**
 * Who may call what with authentication on (design D36): a literal table, compared with what the routes of the programs declare, and
 * each route called by each kind of caller. A new route fails here until it stands in the table.
 */

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

async function callEach(
  url: string,
  table: Readonly<Record<string, Row>>,
  callers: Readonly<Record<string, WalkCaller>>,
  isOpen = false,
) {
  for (const [route, row] of Object.entries(table)) {
    const [method = '', path = ''] = route.split(' ');
    for (const [name, caller] of Object.entries(callers)) {
      const what = `${route} by ${name}`;
      const init = { method, headers: { 'content-type': 'application/json', ...caller.headers } };
      const answer = await request(
        `${url}${path.replace(/:\w+/g, 'x')}`,
        method === 'GET' ? init : { ...init, body: '{}' },
      );
      const isIn = isOpen || mayCall(row, name, caller);
      assert.equal(answer.status !== 401, isIn, `${what}: ${answer.status} ${answer.text}`);
      if (isIn) continue;
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer', what);
      assert.equal(typeof field(answer.json, 'detail', 'error'), 'string', what);
      assert.doesNotMatch(answer.text, /nonsense|eyJ/, what);
      const isOfKind = caller.isLimited && mayCall(row, name, { ...caller, isLimited: false });
      assert.equal(answer.headers.get('x-sync-error'), isOfKind ? 'token_limited' : 'unauthorized', what);
    }
  }
}

describe('with authentication on', () => {
  const pair = keyPair();
  let server: Awaited<ReturnType<typeof startServer>>;
  let callers: Record<string, WalkCaller>;
  before(async () => {
    server = await startServer(withKeys(pair));
    await using foreign = await startServer(withKeys());
    callers = await walkCallers(server.url, foreign.url);
  });
  after(() => server?.[Symbol.asyncDispose]());

  it('server: the table has every route, and each route takes exactly whom the table says', async () => {
    await callEach(server.url, SERVER_ROUTES, callers);
    assert.deepEqual(rowsOf(server.routes), SERVER_ROUTES);
  });

  it('client: the table has every route, and each route takes exactly whom the table says', async () => {
    await using client = await startClient({ SYNC_AUTH_PUBLIC_KEY: pair.publicKey });
    await callEach(client.url, CLIENT_ROUTES, callers);
    assert.deepEqual(rowsOf(client.routes), CLIENT_ROUTES);
  });
});

it('with authentication off nothing asks for a token', async () => {
  await using server = await startServer({});
  await using client = await startClient({});
  const callers = { nobody: { headers: {} } };
  await callEach(server.url, SERVER_ROUTES, callers, true);
  await callEach(client.url, CLIENT_ROUTES, callers, true);
});
