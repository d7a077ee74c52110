import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { ALL_OFFERED } from '../support/authzen.js';
import { fleetStream } from '../support/fleet-stream.js';
import { type Answer, field, postJson, request } from '../support/http.js';
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
  SERVER_ROUTES,
  type WalkCaller,
  walkCallers,
} from '../support/route-table.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/**
 * What both programs tell whom, over all of their routes. The world is full of two words: `inner` stands in texts of failures and addresses of
 * internal services, `other` in topics, paths and names that are not those of the limited tokens. Whoever may not know must not get them.
 */

const WITHIN = { withinMs: 30_000 };
const CLOSED = 'http://127.0.0.1:9';
const INNER = /inner/;
const OTHER = /other-/;

/** How a route is called where `{}` at its path does not show enough. */
interface Ask {
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object;
}

const SERVER_ASKS: Readonly<Record<string, readonly Ask[]>> = {
  'GET /clients/:id': [{ path: '/clients/ours' }, { path: '/clients/secluded' }],
  'POST /clients/:id/actions': [{ path: '/clients/ours/actions', body: { action: 'refresh' } }],
  'GET /trace/:id': [{ path: '/trace/1' }, { path: '/trace/2' }],
  'GET /data/log': [{}, { path: '/data/log?include=secrets' }],
  'POST /data/refresh': [{ body: { path: '/acme' } }],
  'POST /webhook': [
    { headers: { 'x-github-event': 'ping' }, body: { repository: { full_name: 'acme/inner-repository' } } },
  ],
};

const CLIENT_ASKS: Readonly<Record<string, readonly Ask[]>> = {
  'GET /callbacks/:key': [{ path: '/callbacks/known' }],
  'DELETE /callbacks/:key': [{ path: '/callbacks/unknown' }],
  'POST /callbacks': [{ body: { url: `${CLOSED}/mine`, key: 'mine' } }],
};

/** Where somebody who may know everything is told of both words: a walk that finds nothing there would find nothing anywhere. */
const TOLD = {
  server: {
    inner: ['GET /healthcheck', 'GET /policy/source', 'GET /clients', 'GET /clients/:id', 'GET /ui/events'],
    other: [
      ...[
        'GET /clients',
        'GET /clients/:id',
        'GET /trace/:id',
        'GET /changes',
        'GET /ui/events',
        'GET /data/documents',
      ],
      ...['GET /data/config', 'GET /data/updates', 'GET /statistics', 'GET /pubsub_client_info'],
    ],
  },
  client: {
    inner: ['GET /', 'GET /healthy', 'GET /healthcheck', 'GET /ready', 'GET /callbacks', 'GET /policy-store/config'],
    other: ['GET /healthy', 'GET /position'],
  },
} as const;

async function startPrograms() {
  const parts: (() => PromiseLike<unknown>)[] = [];
  const pair = keyPair();
  const folder = await tempDir();
  parts.push(() => folder[Symbol.asyncDispose]());
  const env = withKeys(pair);
  const server = createServer(
    {
      ...loadSettings(SERVER_SETTINGS, {
        env: {
          ...env,
          SYNC_SERVER_BIND_PORT: '0',
          SYNC_STATISTICS_ENABLED: 'true',
          SYNC_POLICY_REPO_URL: `${CLOSED}/acme/inner-repository.git`,
        },
      }).values,
      stateDir: folder.path,
    },
    { log: silentLogger(), env: process.env },
  );
  parts.push(() => server.stop());
  const { url } = await server.start();
  const foreignFolder = await tempDir();
  parts.push(() => foreignFolder[Symbol.asyncDispose]());
  const foreign = createServer(
    {
      ...loadSettings(SERVER_SETTINGS, { env: { ...withKeys(), SYNC_SERVER_BIND_PORT: '0' } }).values,
      stateDir: foreignFolder.path,
    },
    { log: silentLogger(), env: process.env },
  );
  parts.push(() => foreign.stop());
  const callers = await walkCallers(url, (await foreign.start()).url);
  await fill(url, callers, parts);
  const client = createClient(
    loadSettings(CLIENT_SETTINGS, {
      env: {
        ...ALL_OFFERED,
        SYNC_AUTH_PUBLIC_KEY: pair.publicKey,
        SYNC_CLIENT_API_SERVER_PORT: '0',
        SYNC_SERVER_URL: url,
        SYNC_CLIENT_ID: 'mixed',
        SYNC_CLIENT_TOKEN: await tokenOf(url),
        SYNC_DATA_TOPICS: 'acme,other-topic',
        SYNC_INLINE_ENGINE_ENABLED: 'false',
        SYNC_POLICY_STORE_URL: `${CLOSED}/inner-engine`,
        SYNC_POLICY_STORE_AUTH_TYPE: 'token',
        SYNC_POLICY_STORE_AUTH_TOKEN: 'inner-engine-token',
      },
    }).values,
    { log: silentLogger(), env: process.env },
  );
  parts.push(() => client.stop());
  const clientUrl = (await client.start()).url;
  const listener = callers.listener?.headers ?? {};
  const registered = await postJson(
    `${clientUrl}/callbacks`,
    { url: `${CLOSED}/inner-callback`, key: 'known' },
    { ...listener },
  );
  assert.equal(registered.status, 200, registered.text);
  await until(
    async () => {
      const { text } = await request(`${clientUrl}/healthy`, { headers: listener });
      const position = await request(`${clientUrl}/position`, { headers: listener });
      return INNER.test(text) && OTHER.test(text) && OTHER.test(position.text);
    },
    { ...WITHIN, what: 'the client knows what fails' },
  );
  return { server: { url, program: server }, client: { url: clientUrl, program: client }, callers, parts };
}

/** Two updates, and two clients: one of the limited tokens and of others, and one that is only of others. */
async function fill(url: string, callers: Readonly<Record<string, WalkCaller>>, parts: (() => PromiseLike<unknown>)[]) {
  const headers = { ...callers.datasource?.headers };
  const entry = (topic: string, dst_path: string) => ({ url: `${CLOSED}/${topic}`, topics: [topic], dst_path });
  const both = { entries: [entry('acme', '/acme/a'), entry('other-topic', '/other-path')] };
  const apart = { entries: [entry('other-topic', '/other-path/b')], reason: 'other-reason' };
  for (const update of [both, apart]) assert.equal((await postJson(`${url}/data/config`, update, headers)).status, 200);
  const peer = async (client_id: string, topics: string[]) => {
    const one = await startPeer(url, { 'x-sync-protocol': '2', ...bearer(await tokenOf(url)) });
    parts.push(() => one[Symbol.asyncDispose]());
    return { one, opened: await one.call('subscribe', { topics, client_id }) };
  };
  const { one, opened } = await peer('ours', ['acme', 'other-topic']);
  await peer('secluded', ['other-topic']);
  const failing = [
    { path: '/acme/a', error: 'inner: password hunter2', kind: 'source', since: 1 },
    { path: '/other-path', error: 'inner: password hunter2', kind: 'source', since: 1 },
  ];
  const policy = { wanted: 'b', held: 'a', error: { message: 'inner', file: 'x.rego', line: 3 }, since: 1 };
  const state = {
    ...{ client_id: 'ours', policy_hash: 'a', policy, failing, ready: true, healthy: false, since: 1 },
    position: { epoch: field(opened, 'epoch'), applied_through: 2, applied_beyond: [], unresolved: [1, 2] },
    engine: { kind: 'opa', version: '1', online: false, error: 'inner' },
  };
  assert.equal(await one.call('report', state), true);
  await until(async () => INNER.test((await request(`${url}/policy/source`, { headers })).text), {
    ...WITHIN,
    what: 'the repository does not answer',
  });
}

describe('the walk over all routes', () => {
  let programs: Awaited<ReturnType<typeof startPrograms>>;
  before(async () => {
    programs = await startPrograms();
  });
  after(async () => {
    for (const end of programs?.parts.reverse() ?? []) await end();
  });

  for (const name of ['server', 'client'] as const) {
    const [table, asks] = name === 'server' ? [SERVER_ROUTES, SERVER_ASKS] : [CLIENT_ROUTES, CLIENT_ASKS];

    it(`${name}: no answer has what its caller may not know`, async () => {
      const { callers, [name]: program } = programs;
      const problems: string[] = [];
      for (const [route, row] of Object.entries<Row>(table)) {
        for (const [who, caller] of Object.entries(callers)) {
          // Of those without limits a client is the one that may not know everything of a server.
          const isFree = caller.type !== undefined && caller.isLimited !== true;
          if (isFree && (name === 'client' || who !== 'client')) continue;
          for (const how of asks[route] ?? [{}]) {
            const { status, text } = await ask(program.url, route, caller, how);
            if (mayCall(row, who, caller) ? status >= 500 && status !== 503 : status !== 401)
              problems.push(`${route} by ${who}: ${status} ${text.slice(0, 300)}`);
            const isOfTopics = !isFree && !who.endsWith('of paths');
            if (INNER.test(text) || (isOfTopics && OTHER.test(text)))
              problems.push(`${route} by ${who} shows ${text.slice(0, 1000)}`);
          }
        }
      }
      assert.deepEqual(problems, []);
    });

    it(`${name}: what strangers are told has no place for a text`, async () => {
      const { json } = await request(`${programs[name].url}/openapi.json`);
      const open = Object.entries<Row>(table).filter(([, row]) => row.startsWith('everyone: words'));
      const found = open.flatMap(([route]) => {
        const [method = '', path = ''] = route.split(' ');
        const responses = field(json, 'paths', path, method.toLowerCase(), 'responses') as object;
        return Object.entries(responses)
          .filter(([status]) => status !== 'default')
          .flatMap(([, response]) => freeTexts(field(response, 'content', 'application/json', 'schema')));
      });
      assert.deepEqual([...new Set(found)].sort(), [...IDENTIFIERS[name]].sort());
    });

    it(`${name}: whoever may know is told`, async () => {
      const { callers, [name]: program } = programs;
      const told = { inner: new Set<string>(), other: new Set<string>() };
      for (const route of new Set<string>([...TOLD[name].inner, ...TOLD[name].other])) {
        for (const how of asks[route] ?? [{}]) {
          const by = name === 'server' ? callers.datasource : callers.listener;
          const { text } = await ask(program.url, route, by ?? { headers: {} }, how);
          if (INNER.test(text)) told.inner.add(route);
          if (OTHER.test(text)) told.other.add(route);
        }
      }
      for (const word of ['inner', 'other'] as const)
        assert.deepEqual(
          TOLD[name][word].filter((route) => !told[word].has(route)),
          [],
          word,
        );
    });
  }
});

it('a session of the live page is told what its token is told, and only on that page', async () => {
  await using server = await startServer({
    ...withKeys(),
    SYNC_POLICY_REPO_URL: `${CLOSED}/acme/inner-repository.git`,
  });
  const own = { origin: server.url, 'x-sync-ui': '1' };
  const cookieOf = async (claims: object) => {
    const token = await tokenOf(server.url, { type: 'listener', claims });
    const { headers } = await postJson(`${server.url}/ui/session`, { token }, own);
    return { cookie: headers.get('set-cookie')?.split(';')[0] ?? '' };
  };
  const [free, limited] = [await cookieOf({}), await cookieOf({ permitted_topics: ['acme'] })];
  const health = async (headers: Record<string, string>) =>
    (await request(`${server.url}/healthcheck`, { headers })).text;
  await until(async () => INNER.test(await health(free)), { ...WITHIN, what: 'the repository does not answer' });
  for (const headers of [
    limited,
    { ...free, 'sec-fetch-site': 'cross-site' },
    { ...free, origin: 'http://elsewhere.example' },
    { ...free, ...bearer('made-up') },
  ]) {
    assert.doesNotMatch(await health(headers), INNER);
    assert.match(await health(headers), /"code":"git_failed"/);
  }
  // A 401 would have the page ask for a token.
  assert.equal((await request(`${server.url}/metrics`, { headers: limited })).status, 403);
  assert.equal((await request(`${server.url}/metrics`, { headers: free })).status, 200);
});

/** Texts of answers to strangers that are not for insiders and no words of a list: names of things that say nothing of anybody. */
const IDENTIFIERS = {
  server: [
    ...['head', 'wanted', 'doubted', 'awaited.commit', 'refused', 'checking', 'code'].map((name) => `policy.${name}`),
    ...['update_log.epoch', 'update_log.backbone.since', 'update_log.refuses.since', 'state_files.since'],
    // Of a webhook: what the sender has sent.
    ...['event', 'commit'],
  ],
  client: [
    ...['now', 'policy.hash', 'policy.wanted', 'policy.since', 'policy.last_transaction.at'],
    ...['data.last_transaction.at', 'data.failing.since', 'data.epoch', 'data.drift.checked_at'],
    ...['engine.since', 'server.code', 'server.since', 'server.cut_off_since', 'connectivity.backup.saved_at'],
  ],
} as const;

/** The places of all texts in a JSON Schema that anybody may fill: no list of words, no time, not for insiders. */
function freeTexts(schema: unknown, at: readonly string[] = []): string[] {
  if (field(schema, 'x-insider') === true) return [];
  const options = ['anyOf', 'oneOf', 'allOf'].flatMap((name) => (field(schema, name) as unknown[] | undefined) ?? []);
  const members = Object.entries((field(schema, 'properties') as object | undefined) ?? {});
  const isText = [field(schema, 'type')].flat().includes('string');
  const isWord = ['enum', 'const', 'format'].some((name) => field(schema, name) !== undefined);
  return [
    ...(isText && !isWord ? [at.join('.')] : []),
    ...members.flatMap(([name, member]) => freeTexts(member, [...at, name])),
    ...[field(schema, 'items'), field(schema, 'additionalProperties'), ...options].flatMap((inner) =>
      typeof inner === 'object' ? freeTexts(inner, at) : [],
    ),
  ];
}

async function ask(
  url: string,
  route: string,
  { headers }: WalkCaller,
  how: Ask,
): Promise<Pick<Answer, 'status' | 'text'>> {
  const [method = '', declared = ''] = route.split(' ');
  const path = how.path ?? declared.replace(/:\w+/g, 'x');
  const all = { 'content-type': 'application/json', ...headers, ...how.headers };
  if (method !== 'GET') return request(`${url}${path}`, { method, headers: all, body: JSON.stringify(how.body ?? {}) });
  const answer = await request(`${url}${path}`, { headers: all });
  if (answer.headers.get('content-type') !== 'text/event-stream') return answer;
  await using stream = await fleetStream(url, all);
  await stream.sees('a snapshot', ({ events }) => events.length > 0);
  return { status: stream.status, text: JSON.stringify(stream.events) };
}
