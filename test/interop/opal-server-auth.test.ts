import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { bearer, keyPair, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { type CommandResult, runCommand } from '../support/command.js';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { baseEntries } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';
import { recordingProxy } from './recording-proxy.js';
import {
  allowing,
  data,
  opalKeys,
  publish,
  reaches,
  sharedStage,
  startOpalServer,
  startOurClient,
  startOurServer,
  WITHIN_MS,
} from './stage.js';

/**
 * Our client and an OPAL 0.9.9 server with authentication on; the tokens come from OPAL's server by our own command. What the
 * client sends passes a proxy that keeps it.
 */

const CLIENT_ID = 'sync-client-one';
const REPORTS = '/data/callback_report';

async function obtainToken(serverUrl: string, ...args: string[]): Promise<string> {
  const env = { SYNC_SERVER_URL: serverUrl, SYNC_MASTER_TOKEN: MASTER_TOKEN };
  const { code, stdout, stderr } = await runCommand('policysync', ['token', ...args], env);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

const world = sharedStage(async (opalBin, keep) => {
  const folder = keep(await tempDir());
  const keys = await opalKeys(folder.path);
  const repo = keep(await gitRepo());
  await repo.commit(allowing('admin'));
  const source = keep(await startDataSource());
  source.serve('/base', { from: 'base' });
  const auth = {
    OPAL_AUTH_PUBLIC_KEY: keys.publicKey,
    OPAL_AUTH_PRIVATE_KEY: keys.privateKey,
    OPAL_AUTH_MASTER_TOKEN: MASTER_TOKEN,
  };
  const base = baseEntries({ url: `${source.url}/base`, dst_path: '/base' });
  const server = keep(
    await startOpalServer(opalBin, folder.path, {
      ...auth,
      OPAL_POLICY_REPO_URL: repo.url,
      OPAL_DATA_CONFIG_SOURCES: base.SYNC_DATA_CONFIG_SOURCES,
    }),
  );
  const proxy = keep(await recordingProxy(server.url));
  const tokens = {
    client: await obtainToken(server.url, '--ttl', '2', 'days'),
    datasource: await obtainToken(server.url, '--type', 'datasource'),
    listener: await obtainToken(server.url, '--type', 'listener'),
  };
  const client = keep(
    await startOurClient(proxy.url, {
      SYNC_CLIENT_TOKEN: tokens.client,
      SYNC_AUTH_PUBLIC_KEY: keys.publicKey,
      SYNC_STATISTICS_ENABLED: 'true',
      SYNC_CLIENT_STAT_ID: CLIENT_ID,
      SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true',
    }),
  );
  const programs = [client.command.stderr, server.output];
  await reaches(client.engine, '/base', { from: 'base' }, programs);
  return {
    auth,
    repo,
    source,
    server,
    proxy,
    client,
    tokens,
    /** Waits for what the engine of the client answers. */
    reaches: (path: string, value: unknown, input?: unknown) => reaches(client.engine, path, value, programs, input),
  };
});

test('our client with a token from a Python OPAL server gets base data, updates, policy and pushed commits', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, proxy, client, repo, tokens } = stage;
  await stage.reaches('/app/rbac/allow', false, { user: 'alice' });
  await publish(server.url, { dst_path: '/users', data: { alice: { role: 'viewer' } } }, { token: tokens.datasource });
  await stage.reaches('/users', { alice: { role: 'viewer' } });
  await repo.commit(allowing('viewer'));
  await stage.reaches('/app/rbac/allow', true, { user: 'alice' });
  for (const path of ['/ws', '/policy', '/data/config']) {
    const sent = proxy.at('GET', path).map(({ authorization }) => authorization);
    assert.deepEqual([...new Set(sent)], [`Bearer ${tokens.client}`], path);
  }
  assert.doesNotMatch(client.command.stderr(), /eyJ/, 'no token in the log');
});

test('our client reports to a Python OPAL server with its token', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, proxy, tokens } = stage;
  const id = `reported-${randomUUID()}`;
  await publish(server.url, { dst_path: '/reported', data: { n: 1 } }, { token: tokens.datasource, more: { id } });
  const report = await until(
    () =>
      proxy
        .at('POST', REPORTS)
        .find(({ body, status }) => status !== undefined && field(JSON.parse(body), 'update_id') === id),
    { withinMs: WITHIN_MS, what: 'the report' },
  );
  assert.deepEqual([report.status, report.authorization], [200, `Bearer ${tokens.client}`]);
  const [first] = field(JSON.parse(report.body), 'reports') as unknown[];
  assert.deepEqual([field(first, 'fetched'), field(first, 'saved')], [true, true]);
});

test('our publish-data-update publishes through a Python OPAL server with a datasource token, and with no other', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, source, tokens } = stage;
  source.serve('/cli', { by: 'command' });
  const publishes = (token: string, path: string): Promise<CommandResult> => {
    const what = ['--src-url', `${source.url}/cli`, '-t', 'policy_data', '--dst-path', path];
    const env = { SYNC_SERVER_URL: server.url, SYNC_CLIENT_TOKEN: token };
    return runCommand('policysync', ['publish', ...what], env);
  };
  const wrongType = await publishes(tokens.client, '/refused');
  assert.equal(wrongType.code, 1);
  assert.match(wrongType.stderr, /nothing was sent: the token of SYNC_CLIENT_TOKEN is of type client/);
  // OPAL's server repeats a bad token in its answer.
  const broken = `${tokens.datasource.slice(0, -8)}AAAAAAAA`;
  const badSignature = await publishes(broken, '/refused');
  assert.equal(badSignature.code, 1);
  assert.match(badSignature.stderr, /answered 401: Could not decode access token/);
  assert.doesNotMatch(badSignature.stderr + badSignature.stdout, /eyJ/);

  const published = await publishes(tokens.datasource, '/cli');
  assert.equal(published.code, 0, published.stderr);
  assert.match(published.stdout, /Published successfully/);
  await stage.reaches('/cli', { by: 'command' });
  assert.equal(await data(stage.client.engine, '/refused'), undefined);
});

test('tokens of a Python OPAL server and of ours with the same keys are accepted by both, by type, and others by none', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  await using folder = await tempDir();
  // The settings of OPAL's server as they are: an existing deployment moves over by changing the image.
  await using ours = await startOurServer(folder.path, stage.auth);
  await using elsewhere = await startServer(withKeys(keyPair()));
  const issuers = {
    opal: stage.tokens,
    ours: {
      client: await tokenOf(ours.url),
      datasource: await tokenOf(ours.url, { type: 'datasource' }),
      listener: await tokenOf(ours.url, { type: 'listener' }),
    },
    elsewhere: {
      client: await tokenOf(elsewhere.url),
      datasource: await tokenOf(elsewhere.url, { type: 'datasource' }),
      listener: await tokenOf(elsewhere.url, { type: 'listener' }),
    },
  };
  const update = { entries: [{ url: '', topics: ['nobody'], dst_path: '/nowhere', data: {} }] };
  const statuses = async (
    { client, datasource, listener }: typeof stage.tokens,
    serverUrl: string,
  ): Promise<object> => ({
    reads: (await request(`${serverUrl}/data/config`, { headers: bearer(client) })).status,
    publishes: (await postJson(`${serverUrl}/data/config`, update, bearer(datasource))).status,
    clientPublishes: (await postJson(`${serverUrl}/data/config`, update, bearer(client))).status,
    listens: (await request(`${stage.client.apiUrl}/callbacks`, { headers: bearer(listener) })).status,
    clientListens: (await request(`${stage.client.apiUrl}/callbacks`, { headers: bearer(client) })).status,
  });
  const good = { reads: 200, publishes: 200, clientPublishes: 401, listens: 200, clientListens: 401 };
  const none = { reads: 401, publishes: 401, clientPublishes: 401, listens: 401, clientListens: 401 };
  for (const serverUrl of [ours.url, stage.server.url]) {
    assert.deepEqual(await statuses(issuers.opal, serverUrl), good);
    assert.deepEqual(await statuses(issuers.ours, serverUrl), good);
    assert.deepEqual(await statuses(issuers.elsewhere, serverUrl), none);
  }
});

test('our clients are in the statistics of a Python OPAL server while they are connected', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  const { server, tokens } = stage;
  const topicsOf = async (id: string): Promise<unknown[]> => {
    const { json } = await request(`${server.url}/statistics`, { headers: bearer(tokens.client) });
    const channels = field(json, 'clients', id) ?? [];
    assert.ok(Array.isArray(channels));
    return channels.flatMap((channel) => field(channel, 'topics')).sort();
  };
  const clientIsListed = async (): Promise<boolean> => (await topicsOf(CLIENT_ID)).join() === 'policy:.,policy_data';
  await until(clientIsListed, { withinMs: WITHIN_MS, what: 'the client is listed' });
  const guest = await startOurClient(server.url, {
    SYNC_CLIENT_TOKEN: tokens.client,
    SYNC_STATISTICS_ENABLED: 'true',
    SYNC_CLIENT_STAT_ID: 'guest',
    SYNC_DATA_TOPICS: 'guests',
  });
  try {
    const isListed = async (): Promise<boolean> => (await topicsOf('guest')).join() === 'guests,policy:.';
    await until(isListed, { withinMs: WITHIN_MS, what: 'the guest is listed' });
  } finally {
    await guest[Symbol.asyncDispose]();
  }
  const isGone = async (): Promise<boolean> => (await topicsOf('guest')).length === 0;
  await until(isGone, { withinMs: WITHIN_MS, what: 'the guest is no longer listed' });
});

test('our client that a Python OPAL server refuses says so in its health, tries again, and leaves the engine empty', async (context) => {
  const stage = world(context);
  if (stage === undefined) return;
  await using proxy = await recordingProxy(stage.server.url);
  await using client = await startOurClient(proxy.url, { SYNC_CLIENT_TOKEN: 'no-token' });
  const triesAgain = (): boolean => proxy.at('GET', '/ws').filter(({ status }) => status === 403).length >= 2;
  await until(triesAgain, { withinMs: WITHIN_MS, what: 'two refusals' });
  await until(
    async () => {
      const { status, json } = await request(`${client.apiUrl}/healthy`);
      // The server may have refused twice before the engine is there to be asked.
      const isOnline = field(json, 'engine', 'online') === true;
      return isOnline && status === 503 && /403/.test(String(field(json, 'server', 'error')));
    },
    { withinMs: WITHIN_MS, what: 'the engine runs, and the health names the refusal' },
  );
  assert.equal(await data(client.engine, '/base'), undefined);
  assert.equal(await data(client.engine, '/app'), undefined);
});
