import assert from 'node:assert/strict';
import { Server } from 'node:net';
import { after, before, describe, mock, test } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { startCallbackReceiver } from '../support/callback-receiver.js';
import { PROXY_PASSWORD, startProxy } from '../support/connect-proxy.js';
import { startDataSource } from '../support/data-source.js';
import { field, postJson, request } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { failing, publish, publishText, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/** What a peer names leads into the engine, and so to everything that the client holds: it must not. */

const ENV = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
const REPORTING = { ...ENV, SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true' };
const IS_ENGINE = /nothing is sent to .* it is the policy engine of this client/;
const EVIL = 'package evil\n\nenv := opa.runtime().env\n';
const PUT = { method: 'put', headers: { 'content-type': 'text/plain' }, data: EVIL };
/** With these a client sends by every method, so that only the address stands against it. */
const ALL_METHODS = { SYNC_FETCH_METHODS: 'GET,POST,PUT,PATCH,DELETE,HEAD' };

/** Waits until the entry of a path fails with this. */
async function failsWith(client: StartedClient, path: string, reason: RegExp): Promise<void> {
  await client.tells(`${path} fails with ${reason}`, (health) =>
    failing(health).some((text) => text.includes(path) && reason.test(text)),
  );
}

/** Times that the client tried to read what goes to a path. */
function tries(client: StartedClient, path: string): number {
  return client.log.filter((line) => /data source/.test(line.msg) && line.path === path).length;
}

test('a publisher of one topic installs no policy by a data source, and reads no other topic', async () => {
  await using server = await startServer(withKeys());
  const clientToken = await tokenOf(server.url, { type: 'client' });
  const publisher = await tokenOf(server.url, { type: 'datasource', claims: { permitted_topics: ['acme'] } });
  const topics = { SYNC_DATA_TOPICS: 'acme,other', SYNC_CLIENT_TOKEN: clientToken };
  await using client = await startClient({ serverUrl: server.url, env: { ...ENV, ...ALL_METHODS, ...topics } });
  await client.healthy();
  const url = (path: string): string => `${client.engineUrl}${path}`;
  const entries = [
    { url: url('/v1/policies/evil'), config: PUT, topics: ['acme'], dst_path: '/install' },
    { url: url('/v1/data/evil'), topics: ['acme'], dst_path: '/loot' },
  ];
  const answer = await postJson(`${server.url}/data/config`, { entries }, bearer(publisher));
  assert.equal(answer.status, 200);
  await failsWith(client, '/install', IS_ENGINE);
  await failsWith(client, '/loot', IS_ENGINE);
  assert.equal(await client.data('/evil'), undefined);
  assert.equal(await client.data('/loot'), undefined);
  // What is refused is refused once: nothing hammers.
  assert.deepEqual([tries(client, '/install'), tries(client, '/loot')], [1, 1]);
  const { text } = await client.health();
  assert(!text.includes(clientToken));
});

describe('what an entry names', () => {
  let server: StartedServer;
  let client: StartedClient;
  /** Everything that the client listens on. */
  const listening = new Set<Server>();
  /** Addresses of names, one after the other; of all others the loopback one, as IPv6 has it. */
  const answers: Record<string, string[]> = {};
  const asked: string[] = [];
  const lookUp = async (host: string) => {
    asked.push(host);
    const [first, ...rest] = answers[host] ?? [];
    if (first === undefined) return [{ address: '::ffff:127.0.0.1', family: 6 }];
    if (rest.length > 0) answers[host] = rest;
    return [{ address: first, family: 4 }];
  };
  const provider = {
    names: ['raw'],
    fetch: async ({ url }: { url: string }, { outbound, signal }: import('../../src/index.js').FetchContext) => {
      const { hostname, port } = new URL(url);
      const socket = await outbound.connect({ host: hostname, port: Number(port) }, signal);
      socket.destroy();
      return { outcome: 'unchanged' as const };
    },
  };

  before(async () => {
    server = await startServer();
    const { listen } = Server.prototype;
    const seen = mock.method(Server.prototype, 'listen', function (this: Server, ...given: Parameters<typeof listen>) {
      listening.add(this);
      return listen.apply(this, given);
    });
    try {
      client = await startClient({ serverUrl: server.url, env: ENV, lookUp, fetchProviders: [provider] });
      await client.healthy();
    } finally {
      seen.mock.restore();
    }
  });
  after(async () => {
    for (const part of [client, server]) await part?.[Symbol.asyncDispose]();
  });

  test('a method that the settings do not allow is not sent anywhere', async () => {
    await using receiver = await startCallbackReceiver();
    await publish(server.url, { url: `${receiver.url}/x`, config: PUT, dst_path: '/by-method' });
    await failsWith(client, '/by-method', /config\.method: PUT is not sent: SYNC_FETCH_METHODS has only GET, POST/);
    assert.deepEqual([receiver.calls.length, tries(client, '/by-method')], [0, 1]);
  });

  test('every spelling of the engine is refused, and all that the client itself listens on', async () => {
    const { port } = new URL(client.engineUrl);
    const hosts = [
      ...[
        '127.0.0.1',
        'localhost',
        '127.1',
        '2130706433',
        '0x7f.0.0.1',
        '0.0.0.0',
        '[::1]',
        '[::]',
        '[::ffff:127.0.0.1]',
      ],
      ...['[::ffff:7f00:1]', 'engine.attacker.example', 'LOCALHOST.', '127.9.9.9'],
    ];
    const spellings = hosts.map((host, index) => ({ url: `http://${host}:${port}/v1/data`, dst_path: `/e${index}` }));
    const ports = [...listening]
      .map((each) => each.address())
      .flatMap((at) => (at === null || typeof at === 'string' ? [] : [at.port]));
    const own = ports.map((each) => ({ url: `http://127.0.0.1:${each}/`, dst_path: `/own${each}` }));
    await publish(server.url, ...spellings, ...own);
    for (const index of hosts.keys()) await failsWith(client, `/e${index}`, IS_ENGINE);
    const api = Number(new URL(client.url).port);
    assert(ports.includes(api) && ports.length === 2, `${ports}`);
    for (const each of ports) {
      await failsWith(
        client,
        `/own${each}`,
        each === api ? /the API of this client/ : /the bundle service of this client/,
      );
    }
  });

  test('a name that leads elsewhere when it is asked again leads nowhere else', async () => {
    await using source = await startCallbackReceiver();
    answers['good-then-bad'] = ['127.0.0.1', '169.254.169.254'];
    const { port } = new URL(source.url);
    // The answer of this source is no JSON, so that it is read again and again; the connection is cut, so that each is a new one.
    source.answer('/cut', 'cut');
    await publish(server.url, { url: `http://good-then-bad:${port}/cut`, dst_path: '/twice' });
    await failsWith(
      client,
      '/twice',
      /good-then-bad:\d+ \(169\.254\.169\.254\): it is a link-local or metadata address/,
    );
    // The first connection went to the address that was checked, with no look-up in between.
    assert.equal(source.at('/cut').length, 1);
    assert(asked.filter((host) => host === 'good-then-bad').length >= 2);
    // It may lead somewhere good again: then it is read.
    answers['good-then-bad'] = ['127.0.0.1'];
    source.answer('/cut', 200);
    await client.tells('it is read again', () => source.at('/cut').length > 1);
  });

  test('a redirect does not lead into the engine, and takes no configured header to another origin', async () => {
    await using source = await startCallbackReceiver();
    await using other = await startCallbackReceiver();
    source.answer('/engine', { redirect: `${client.engineUrl}/v1/data` });
    source.answer('/away', { redirect: `${other.url}/here` });
    const headers = { 'x-api-key': 's3cret', authorization: 'Bearer s3cret' };
    await publish(
      server.url,
      { url: `${source.url}/engine`, dst_path: '/engine', config: { method: 'post', data: {} } },
      { url: `${source.url}/away`, dst_path: '/away', config: { headers } },
    );
    await failsWith(client, '/engine', IS_ENGINE);
    await client.tells('the other origin is asked', () => other.calls.length > 0);
    assert.equal(source.at('/away')[0]?.headers['x-api-key'], 's3cret');
    assert(!JSON.stringify(other.calls[0]?.headers).includes('s3cret'));
  });

  test('a database of an entry is not the engine either, and a provider of our own has the same gate', async () => {
    const { port } = new URL(client.engineUrl);
    const postgres = { fetcher: 'postgres', query: 'select 1', connection_params: { user: 'u', password: 'p' } };
    await publish(
      server.url,
      { url: `postgresql://127.0.0.1:${port}/x`, dst_path: '/pg', config: postgres },
      { url: `postgresql://2130706433:${port}/x`, dst_path: '/decimal', config: postgres },
      { url: `raw://localhost:${port}`, dst_path: '/raw', config: { fetcher: 'raw' } },
    );
    for (const path of ['/pg', '/decimal', '/raw']) await failsWith(client, path, IS_ENGINE);
  });
});

test('an external engine is refused by its name and by its address', async () => {
  await using server = await startServer();
  await using opa = await startOpa();
  const lookUp = async () => [{ address: '127.0.0.1', family: 4 }];
  await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env: ENV, lookUp });
  await client.healthy();
  await publish(
    server.url,
    { url: `${opa.url}/v1/data`, dst_path: '/a' },
    { url: `http://alias.example:${opa.port}/v1/data`, dst_path: '/b' },
  );
  await failsWith(client, '/a', IS_ENGINE);
  await failsWith(client, '/b', IS_ENGINE);
});

test('reports go into the engine neither by a one-time callback, nor a registered one, nor a redirect', async () => {
  await using server = await startServer();
  await using receiver = await startCallbackReceiver();
  const env = { ...REPORTING, ...ALL_METHODS, SYNC_DEFAULT_UPDATE_CALLBACKS: '{"callbacks":[]}' };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  const engine = `${client.engineUrl}/v1/data/taken`;
  receiver.answer('/hop', { redirect: engine });
  await postJson(`${client.url}/callbacks`, { url: `${engine}/registered`, config: { method: 'put' } });
  const callbacks = [[`${engine}/once`, { method: 'put' }], `${receiver.url}/hop`];
  const entries = [{ url: '', topics: ['policy_data'], dst_path: '/x', data: 1 }];
  await publishText(server.url, JSON.stringify({ id: 'u', entries, callback: { callbacks } }));
  await client.tells('all are given up', (health) => field(health, 'reports', 'failed') === 3);
  const given = client.log.filter(({ msg }) => msg === 'a report was not delivered');
  assert.equal(given.length, 3);
  for (const line of given) {
    assert.match(String(line.error), IS_ENGINE);
    assert.equal(line.attempt, 1);
  }
  assert.equal(await client.data('/taken'), undefined);
});

test('callbacks that a peer names follow SYNC_FETCH_ALLOW and SYNC_FETCH_METHODS; those of the settings are free', async () => {
  await using server = await startServer();
  await using own = await startCallbackReceiver();
  await using other = await startCallbackReceiver();
  const configured = JSON.stringify({ callbacks: [[`${own.url}/own`, { method: 'put' }]] });
  const env = { ...REPORTING, SYNC_DEFAULT_UPDATE_CALLBACKS: configured, SYNC_FETCH_ALLOW: 'api.example' };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  const entries = [{ url: '', topics: ['policy_data'], dst_path: '/x', data: 1 }];
  const callbacks = [`${other.url}/once`, [`${own.url}/by-method`, { method: 'delete' }]];
  await publishText(server.url, JSON.stringify({ id: 'u', entries, callback: { callbacks } }));
  await client.tells('what a peer named is given up', (health) => field(health, 'reports', 'failed') === 2);
  await client.tells('our own is told', () => own.updates('/own').includes('u'));
  assert.deepEqual([other.calls.length, own.at('/by-method').length], [0, 0]);
  const reasons = client.log
    .filter(({ msg }) => msg === 'a report was not delivered')
    .map(({ error }) => String(error));
  assert(reasons.some((text) => /SYNC_FETCH_ALLOW does not list it/.test(text)));
  assert(reasons.some((text) => /DELETE is not sent: SYNC_FETCH_METHODS/.test(text)));
});

test('the configuration of the data sources is not read from where the server may not lead to', async () => {
  // The server takes an address of this kind from its operator alone; a hostile server may answer any.
  await using hostile = await startCallbackReceiver();
  await using opa = await startOpa();
  hostile.answer('/data/config', { redirect: `${opa.url}/v1/data`, status: 302 });
  hostile.answer('/data/config?origin=base', { redirect: `${opa.url}/v1/data`, status: 302 });
  const env = { ...ENV, SYNC_DEFAULT_DATA_SOURCES_CONFIG_URL: `${hostile.url}/data/config` };
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env });
  await client.tells('the redirect is refused', (health) => {
    const text = JSON.stringify(health);
    return /the sync server redirects to .*nothing is sent to .*it is the policy engine/.test(text);
  });
});

test('through a proxy a place is refused by its name, and the proxy is not asked', async () => {
  await using server = await startServer();
  await using opa = await startOpa();
  await using proxy = await startProxy();
  const programEnv = { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url };
  const env = { ...ENV, SYNC_FETCH_DENY: '.denied.example' };
  await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env, programEnv });
  await client.healthy();
  await publish(
    server.url,
    { url: `http://169.254.169.254:${opa.port}/latest`, dst_path: '/metadata' },
    { url: `https://x.denied.example:${opa.port}/`, dst_path: '/denied' },
    { url: `http://x.denied.example:${opa.port}/`, dst_path: '/denied-too' },
  );
  await failsWith(client, '/metadata', /link-local/);
  await failsWith(client, '/denied', /SYNC_FETCH_DENY has \.denied\.example/);
  await failsWith(client, '/denied-too', /SYNC_FETCH_DENY has \.denied\.example/);
  assert.deepEqual(proxy.requests, []);
  assert(!(await request(`${client.url}/healthy`)).text.includes(PROXY_PASSWORD));
});

test('a Host header names no place that is not to be reached', async () => {
  await using server = await startServer();
  await using receiver = await startCallbackReceiver();
  const env = { ...REPORTING, SYNC_FETCH_DENY: 'no.example', SYNC_DEFAULT_UPDATE_CALLBACKS: '{"callbacks":[]}' };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  const { port } = new URL(client.engineUrl);
  const withHost = (host: string) => ({ headers: { Host: host } });
  const entry = { url: `${receiver.url}/x`, topics: ['policy_data'] };
  const entries = [
    { ...entry, dst_path: '/denied', config: withHost('no.example:81') },
    { ...entry, dst_path: '/engine', config: withHost(`localhost:${port}`) },
    { ...entry, dst_path: '/odd', config: withHost('a b') },
    { ...entry, url: '', dst_path: '/inline', data: 1 },
  ];
  const callbacks = [[`${receiver.url}/callback`, withHost('no.example')]];
  await publishText(server.url, JSON.stringify({ id: 'u', entries: entries.slice(3), callback: { callbacks } }));
  await publish(server.url, ...entries.slice(0, 3));
  await failsWith(client, '/denied', /SYNC_FETCH_DENY has no\.example/);
  await failsWith(client, '/engine', IS_ENGINE);
  await failsWith(client, '/odd', /the header Host is "a b", which is no place/);
  await client.tells('the callback is given up', (health) => field(health, 'reports', 'failed') === 1);
  assert.deepEqual(receiver.calls, []);
});

test('what the settings say of places and methods is read strictly', async () => {
  for (const [setting, value, says] of [
    [
      'SYNC_FETCH_ALLOW',
      'api.example,http://b.example',
      /SYNC_FETCH_ALLOW "http:\/\/b\.example" must be a name, \.suffix/,
    ],
    ['SYNC_FETCH_DENY', '10.0.0.0/99', /SYNC_FETCH_DENY "10\.0\.0\.0\/99" must be/],
    ['SYNC_FETCH_METHODS', 'GET,BREW', /SYNC_FETCH_METHODS must be a list of GET, POST/],
  ] as const) {
    const env = { [setting]: value };
    await assert.rejects(startClient({ serverUrl: 'http://127.0.0.1:1', env }), {
      code: 'config_invalid',
      message: says,
    });
  }
});

test('SYNC_FETCH_ALLOW and SYNC_FETCH_DENY say which sources are read, by name, address and port', async () => {
  await using server = await startServer();
  await using source = await startDataSource();
  source.serve('/x', 1);
  const { port } = new URL(source.url);
  const lookUp = async () => [{ address: '127.0.0.1', family: 4 }];
  const rules = { SYNC_FETCH_ALLOW: `.example,127.0.0.2:${port}`, SYNC_FETCH_DENY: 'no.example' };
  await using client = await startClient({ serverUrl: server.url, env: { ...ENV, ...rules }, lookUp });
  await publish(
    server.url,
    { url: `http://api.example:${port}/x`, dst_path: '/by_name' },
    { url: `http://127.0.0.2:${port}/x`, dst_path: '/by_address' },
    { url: `http://no.example:${port}/x`, dst_path: '/denied' },
    { url: `http://127.0.0.1:${port}/x`, dst_path: '/not_listed' },
  );
  await client.holds('/by_name', 1);
  await failsWith(client, '/by_address', /ECONNREFUSED|EADDRNOTAVAIL|no connection/); // let through; nobody is there
  await failsWith(client, '/denied', /SYNC_FETCH_DENY has no\.example/);
  await failsWith(client, '/not_listed', /SYNC_FETCH_ALLOW does not list it/);
});
