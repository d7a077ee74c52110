import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, it } from 'node:test';
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

const log = silentLogger();
/** Stopped before they do anything, so what they would do is all the same. */
const CLOSED = 'http://127.0.0.1:9';

function makeClient() {
  const { values } = loadSettings(CLIENT_SETTINGS, {
    env: {
      SYNC_CLIENT_API_SERVER_PORT: '0',
      SYNC_SERVER_URL: CLOSED,
      SYNC_POLICY_STORE_URL: CLOSED,
      SYNC_INLINE_ENGINE_ENABLED: 'false',
    },
  });
  return createClient(values, { log, env: {} });
}

/** The same in the short form: what differs from the defaults, and no logger. */
function makeShortClient() {
  return createClient({ port: 0, serverUrl: CLOSED, engineUrl: CLOSED, engine: 'external' });
}

function makeServer(stateDir: string) {
  const { values } = loadSettings(SERVER_SETTINGS, { env: { SYNC_SERVER_BIND_PORT: '0' } });
  return createServer({ ...values, stateDir }, { log, env: {} });
}

/** A port that another program has, which answers 404. */
async function takenPort() {
  const server = createHttpServer((_, response) => response.writeHead(404).end()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  return { url, port, [Symbol.asyncDispose]: async () => void (await once(server.close(), 'close')) };
}

describe('a server or client inside a program', () => {
  for (const what of ['server', 'client'] as const) {
    it(`${what}: a stop before the start ends it for good: the start that follows starts nothing`, async () => {
      await using dir = await tempDir();
      const part = what === 'server' ? makeServer(join(dir.path, 'state')) : makeClient();
      const before = process.getActiveResourcesInfo();
      await part.stop();
      await assert.rejects(part.start(), { code: 'already_stopped', message: `this ${what} was stopped` });
      await part.stop();
      assert.deepEqual(process.getActiveResourcesInfo(), before);
    });

    it(`${what}: a stop amid the start leaves nothing that runs`, async () => {
      await using dir = await tempDir();
      const part = what === 'server' ? makeServer(join(dir.path, 'state')) : makeClient();
      const starting = part.start().then(
        ({ url }) => url,
        () => undefined,
      );
      await part.stop();
      const url = await starting;
      if (url !== undefined) await assert.rejects(fetch(url), TypeError);
    });
  }

  it('a client is made of the settings that differ from the defaults', async () => {
    const client = makeShortClient();
    const { url } = await client.start();
    assert.equal((await fetch(`${url}/ready`)).status, 503);
    await assert.rejects(client.decide('a/b', 1, { waitMs: 0 }), { code: 'decision_not_ready' });
    assert.equal((await client.decide('a/b', 1, { waitMs: 0, onUnavailable: 'deny' })).kind, 'unavailable');
    await client.stop();
  });

  it('a client without a port has no API: its start tells no address, and it ends like the others', async () => {
    const client = createClient({ serverUrl: CLOSED, engine: 'embedded' });
    assert.equal(await client.start(), undefined);
    await assert.rejects(client.decide('a/b', 1, { waitMs: 0 }), { code: 'decision_not_ready' });
    await client.drain();
    await client.stop();
    await client.ended();
  });

  it('a client with an embedded engine opens no port for it, unless one is asked for', async () => {
    await using taken = await takenPort();
    const client = createClient({ port: 0, serverUrl: CLOSED, engine: 'embedded', engineUrl: taken.url });
    const { url } = await client.start();
    await until(async () => field((await request(`${url}/healthy`)).json, 'engine', 'version') !== null, {
      withinMs: 20_000,
      what: 'the engine is there',
    });
    await client.stop();
    await client.ended();
  });

  it('what cannot go on: decisions are refused with the reason, and no wait is longer than it takes to know', async () => {
    await using taken = await takenPort();
    const given = { port: 0, serverUrl: CLOSED, engine: 'embedded' } as const;
    const client = createClient(given, { rest: { port: taken.port }, decisions: { waitMs: 600_000 } });
    const refused = {
      code: 'engine_address_in_use',
      message: new RegExp(`decides no more: .*:${taken.port}: another`),
    };
    const first = assert.rejects(client.decide('a/b'), refused);
    await client.start();
    await first;
    await assert.rejects(client.ended(), { code: 'engine_address_in_use' });
    await assert.rejects(client.decide('a/b'), refused);
    await client.stop();
  });

  it('a start that fails is the reason of decisions, too', async () => {
    await using taken = await takenPort();
    const given = { host: '127.0.0.1', port: taken.port, serverUrl: CLOSED, engine: 'embedded' } as const;
    const client = createClient(given, { decisions: { waitMs: 600_000 } });
    const waiting = assert.rejects(client.decide('a/b'), { code: 'listen_failed' });
    await assert.rejects(client.start(), { code: 'listen_failed' });
    await waiting;
    await assert.rejects(client.decide('a/b'), { code: 'listen_failed', message: /decides no more: cannot listen on/ });
    await client.stop();
  });

  it('a port of the REST API that is none, or is one of two addresses, is refused when the client is made', () => {
    for (const port of [0, -1, 65_536, 1.5])
      assert.throws(() => createClient({ engine: 'embedded' }, { rest: { port } }), { code: 'config_invalid' });
    const given = { engine: 'embedded', inlineEngineConfig: { addr: ':8181' } } as const;
    assert.throws(() => createClient(given, { rest: { port: 8182 } }), /rest\.port and addr/);
  });

  it('a setting that is not there, or is not valid, is refused when the client is made', () => {
    const given = { serverURL: CLOSED, port: 70_000 } as object;
    assert.throws(() => createClient(given), {
      code: 'config_invalid',
      message: /no setting serverURL: did you mean serverUrl\?\s+port must be a whole number between 0 and 65535/,
    });
  });

  it('a setting under another of its names is refused with the name of its property', () => {
    for (const [name, meant] of [
      ['SYNC_POLICY_STORE_URL', 'engineUrl'],
      ['OPAL_POLICY_STORE_URL', 'engineUrl'],
      ['policy-store-url', 'engineUrl'],
      ['enginURL', 'engineUrl'],
      ['SYNC_CLIENT_TOKEN_FILE', 'clientToken'],
      ['SYNC_POLICY_SUBSCRIPTION_DIRS', 'policyDirs'],
      ['policy_subscription_dirs', 'policyDirs'],
    ] as const)
      assert.throws(() => createClient({ [name]: 'x' }), {
        message: new RegExp(`no setting ${name}: did you mean ${meant}\\?$`),
      });
    for (const [name, meant] of [
      ['SYNC_SERVER_BIND_PORT', 'port'],
      ['bindPort', 'port'],
      ['serverHost', 'host'],
      ['policyRepoMainBranch', 'policyRepoBranch'],
      ['SYNC_DATA_CONFIG_SOURCES', 'dataSources'],
    ] as const)
      assert.throws(() => createServer({ stateDir: '/nowhere', [name]: 'x' }), {
        message: new RegExp(`no setting ${name}: did you mean ${meant}\\?$`),
      });
  });

  it('what is no part of a client or a server, or is not valid, is refused when it is made', () => {
    const wrong = {
      ...{ logg: 1, lookup: 1, log: console, decisions: { waitMS: 1, onUnavailable: 'Deny' }, rest: { prt: 1 } },
      ...{ fetchProviders: 5, env: null },
    } as object;
    assert.throws(() => createClient({}, wrong), {
      code: 'config_invalid',
      message: [
        'parts are not valid:',
        'there is no logg: did you mean log?',
        'there is no lookup: did you mean lookUp?',
        'log must be a logger of createLogger, or of pino',
        'there is no decisions.waitMS: did you mean waitMs?',
        "decisions.onUnavailable must be 'error', 'deny', 'last' or a function",
        'there is no rest.prt: did you mean port?',
        'fetchProviders must be a list of objects',
        'env must be an object',
      ].join('\n  '),
    });
    assert.throws(() => createServer({ stateDir: '/nowhere' }, { rest: {} } as object), {
      message: 'a part is not valid:\n  there is no rest',
    });
    assert.throws(() => createClient({ rest: { port: 8181 } } as object), {
      message: 'a setting is not valid:\n  there is no setting rest: it belongs to the second argument',
    });
    for (const given of [null, [], 'x', 5])
      assert.throws(() => createClient(given as object), { code: 'config_invalid', message: /must be an object/ });
    assert.throws(() => createClient({}, null as unknown as object), { code: 'config_invalid' });
    for (const given of [undefined, { stateDir: '' }])
      assert.throws(() => createServer(given as { stateDir: string }), { code: 'config_invalid' });
  });

  it('a server is made of the settings that differ from the defaults, without logger and environment', async () => {
    await using dir = await tempDir();
    const server = createServer({ port: 0, stateDir: join(dir.path, 'state') });
    const { url } = await server.start();
    const { status } = await fetch(`${url}/healthcheck`).finally(() => server.stop());
    await server.ended();
    assert.equal(status, 200);
  });

  it('a server is refused without a state folder, and with a setting that is not valid, when it is made', () => {
    assert.throws(() => createServer({} as { stateDir: string }), {
      code: 'config_invalid',
      message: /stateDir is missing/,
    });
    assert.throws(() => createServer({ stateDir: '/nowhere', port: -1, heartbeatIntervalMs: 0 }), {
      code: 'config_invalid',
      message: /port must be a whole number.*\n.*heartbeatIntervalMs must be between/,
    });
  });
});
