import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { type CallbackReceiver, startCallbackReceiver } from '../support/callback-receiver.js';
import { type Cable, cutCable } from '../support/cut-cable.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { field, postJson } from '../support/http.js';
import { baseEntries, publish, publishText, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** Reports of updates whose sources answer late: every form of callback hears of every update, once. */

const REPORTING = { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true' };
const FORMS = ['/default', '/default-pair', '/registered', '/once', '/once-pair'];

/** A client with one callback of each form that outlives an update. */
async function reportingClient(serverUrl: string, receiver: CallbackReceiver, env: Record<string, string> = {}) {
  const callbacks = [`${receiver.url}/default`, [`${receiver.url}/default-pair`, { headers: { 'x-form': 'pair' } }]];
  const configured = { SYNC_DEFAULT_UPDATE_CALLBACKS: JSON.stringify({ callbacks }) };
  const client = await startClient({ serverUrl, env: { ...REPORTING, ...configured, ...env } });
  await client.healthy();
  await postJson(`${client.url}/callbacks`, { url: `${receiver.url}/registered` });
  return client;
}

/** Publishes with one callback of each form that is for this update alone. */
function publishWithCallbacks(
  serverUrl: string,
  receiver: CallbackReceiver,
  id: string,
  entries: object[],
): Promise<number> {
  const callbacks = [`${receiver.url}/once`, [`${receiver.url}/once-pair`, { headers: { 'x-form': 'pair' } }]];
  const all = entries.map((entry) => ({ url: '', topics: ['policy_data'], ...entry }));
  return publishText(serverUrl, JSON.stringify({ id, entries: all, callback: { callbacks } }));
}

/** Waits until each form has had these updates of a case, and says what else came. */
async function allForms(receiver: CallbackReceiver, client: StartedClient, name: string, count: number): Promise<void> {
  const ids = Array.from({ length: count }, (_, at) => `${name}${at + 1}`);
  const have = (path: string): unknown[] => receiver.updates(path).filter((id) => String(id).startsWith(name));
  try {
    await until(() => FORMS.every((path) => ids.every((id) => have(path).includes(id))), {
      withinMs: 15_000,
      what: 'all forms of reports arrive',
    });
  } catch (cause) {
    throw new Error(JSON.stringify(Object.fromEntries(FORMS.map((path) => [path, have(path)]))), { cause });
  }
  await client.tells('nothing is left to deliver', (health) => field(health, 'reports', 'queued') === 0);
  for (const path of FORMS) assert.deepEqual(have(path).sort(), ids, path);
}

/** Holds the answer of a path back until it is let go. */
function late(source: DataSource, path: string, value: unknown): () => void {
  let release: () => void = () => undefined;
  const after = new Promise<void>((resolve) => {
    release = resolve;
  });
  source.answer(path, { text: JSON.stringify(value), after });
  return release;
}

describe('a client that has time', () => {
  let receiver: CallbackReceiver;
  let source: DataSource;
  let server: StartedServer;
  let cable: Cable;
  let client: StartedClient;
  before(async () => {
    receiver = await startCallbackReceiver();
    source = await startDataSource();
    server = await startServer();
    cable = await cutCable(server.url);
    client = await reportingClient(cable.url, receiver, { SYNC_HTTP_FETCHER_TIMEOUT: '30' });
  });
  after(async () => {
    for (const part of [client, cable, server, source, receiver]) await part?.[Symbol.asyncDispose]();
  });
  const publishes = (id: string, ...entries: object[]) => publishWithCallbacks(server.url, receiver, id, entries);
  const isRead = (path: string) => until(() => source.count(path) === 1, { withinMs: 20_000, what: `${path} is read` });

  it('all callbacks hear of an update whose source answers late', async () => {
    const release = late(source, '/late', { a: 1 });
    await publishes('late1', { url: `${source.url}/late`, dst_path: '/late' }, { dst_path: '/inline', data: 1 });
    await client.holds('/inline', 1);
    await publishes('late2', { dst_path: '/later', data: 1 });
    await until(() => receiver.updates('/once').length > 0, { withinMs: 20_000, what: 'the later one is reported' });
    assert.deepEqual(receiver.updates('/once'), ['late2']);
    release();
    await allForms(receiver, client, 'late', 2);
  });

  it('all callbacks hear of updates of the same source while it is read', async () => {
    const release = late(source, '/same', { a: 1 });
    const entry = { url: `${source.url}/same`, dst_path: '/same' };
    await publishes('same1', entry);
    await isRead('/same');
    await publishes('same2', entry);
    await publishes('same3', { dst_path: '/after', data: 1 });
    await client.holds('/after', 1);
    release();
    await allForms(receiver, client, 'same', 3);
  });

  it('all callbacks hear of an update that another one replaces while its source is read', async () => {
    late(source, '/replaced', { a: 1 });
    await publishes('replaced1', { url: `${source.url}/replaced`, dst_path: '/replaced' });
    await isRead('/replaced');
    await publishes('replaced2', { dst_path: '/replaced', data: 2 });
    await client.holds('/replaced', 2);
    await allForms(receiver, client, 'replaced', 2);
  });

  for (const [what, name] of [
    ['is lost', 'lost'],
    ['is lost and others are published meanwhile', 'cut'],
  ] as const) {
    it(`all callbacks hear of an update whose connection to the server ${what} while its source is read`, async () => {
      const release = late(source, `/${name}`, { a: 1 });
      await publishes(`${name}1`, { url: `${source.url}/${name}`, dst_path: `/${name}` });
      await isRead(`/${name}`);
      cable.cut();
      await client.tells('it is away', (health) => field(health, 'server', 'connected') === false);
      if (name === 'cut') await publish(server.url, { dst_path: '/other', data: 1 });
      cable.mend();
      await client.tells('it is back', (health) => field(health, 'server', 'connected') === true);
      release();
      await client.holds(`/${name}`, { a: 1 });
      await allForms(receiver, client, name, 1);
    });
  }

  it('all callbacks hear of documents of all kinds that come late: large, text, patch, and one that the engine has already', async () => {
    await publish(server.url, { dst_path: '/known', data: 1 });
    await client.holds('/known', 1);
    const releases = [
      late(source, '/kind-large', { text: 'x'.repeat(3 * 1024 * 1024) }),
      late(source, '/kind-text', 'a text'),
      late(source, '/kind-patch', [{ op: 'add', path: '/patched', value: 1 }]),
      late(source, '/kind-known', 1),
    ];
    const entries = [
      { url: `${source.url}/kind-large`, dst_path: '/large' },
      { url: `${source.url}/kind-text`, dst_path: '/text', config: { is_json: false } },
      { url: `${source.url}/kind-patch`, dst_path: '/', save_method: 'PATCH' },
      { url: `${source.url}/kind-known`, dst_path: '/known' },
    ];
    for (const [index, entry] of entries.entries()) await publishes(`kind${index + 1}`, entry);
    for (const { url } of entries) await isRead(new URL(url).pathname);
    for (const release of releases) release();
    await allForms(receiver, client, 'kind', 4);
  });
});

// Each waits most of its time.
describe('a client with settings of its own', { concurrency: true }, () => {
  it('all callbacks hear of an update whose source is given up first', async () => {
    await using receiver = await startCallbackReceiver();
    await using source = await startDataSource();
    await using server = await startServer();
    await using client = await reportingClient(server.url, receiver, { SYNC_HTTP_FETCHER_TIMEOUT: '0.2' });
    source.answer('/late', { fault: 'silent' });
    await publishWithCallbacks(server.url, receiver, 'u1', [{ url: `${source.url}/late`, dst_path: '/late' }]);
    await until(() => source.count('/late') > 1, { withinMs: 20_000, what: 'it is tried again' });
    source.serve('/late', { a: 1 });
    await allForms(receiver, client, 'u', 1);
  });

  it('a secured server takes the report that is its by default, beside the one-time callbacks', async () => {
    await using receiver = await startCallbackReceiver();
    await using source = await startDataSource();
    await using server = await startServer(withKeys());
    const env = {
      ...REPORTING,
      SYNC_CLIENT_TOKEN: await tokenOf(server.url, { type: 'client' }),
      SYNC_HTTP_FETCHER_TIMEOUT: '30',
    };
    await using client = await startClient({ serverUrl: server.url, env });
    await client.healthy();
    const release = late(source, '/late', { a: 1 });
    const entries = [{ url: `${source.url}/late`, topics: ['policy_data'], dst_path: '/x' }];
    const update = { id: 'u1', entries, callback: { callbacks: [`${receiver.url}/once`] } };
    const publisher = await tokenOf(server.url, { type: 'datasource' });
    assert.equal((await postJson(`${server.url}/data/config`, update, bearer(publisher))).status, 200);
    await until(() => source.count('/late') === 1, { withinMs: 20_000, what: 'it is read' });
    release();
    await client.tells('both are delivered', (health) => field(health, 'reports', 'delivered') === 2);
    assert.deepEqual(receiver.updates('/once'), ['u1']);
    assert.equal(field((await client.health()).json, 'reports', 'failed'), 0);
  });

  it('all callbacks hear of an update that comes while the first load waits for a source, and then of the load', async () => {
    await using receiver = await startCallbackReceiver();
    await using source = await startDataSource();
    const release = late(source, '/base', { a: 1 });
    await using server = await startServer(baseEntries({ url: `${source.url}/base`, dst_path: '/base' }));
    const callbacks = JSON.stringify({ callbacks: [`${receiver.url}/default`] });
    const env = { ...REPORTING, SYNC_DEFAULT_UPDATE_CALLBACKS: callbacks, SYNC_HTTP_FETCHER_TIMEOUT: '30' };
    await using client = await startClient({ serverUrl: server.url, env });
    await until(() => source.count('/base') === 1, { withinMs: 20_000, what: 'the base is read' });
    await publishWithCallbacks(server.url, receiver, 'u1', [{ dst_path: '/x', data: 1 }]);
    await until(() => receiver.updates('/once-pair').length === 1, {
      withinMs: 20_000,
      what: 'the one-time callbacks',
    });
    await until(() => receiver.updates('/default').length === 1, { withinMs: 20_000, what: 'the default one' });
    release();
    await client.holds('/base', { a: 1 });
    await until(() => receiver.updates('/default').length === 2, { withinMs: 20_000, what: 'the load' });
    assert.deepEqual(receiver.updates('/default'), ['u1', 'initial-load']);
  });
});
