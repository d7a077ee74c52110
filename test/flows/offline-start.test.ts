import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { type StartedCommand, startCommand } from '../support/command.js';
import { cutCable } from '../support/cut-cable.js';
import { startDataSource } from '../support/data-source.js';
import { startFakeOpal } from '../support/fake-opal.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { killProcess } from '../support/kill.js';
import {
  APP,
  backupHas,
  backupOf,
  type DeafServer,
  DISCONNECTED,
  deafServer,
  isConnected,
  keepsAndCatchesUp,
  type OfflineWorld,
  offlineIn,
  switchTo,
} from '../support/offline.js';
import { freePort, startOpa, testOpa } from '../support/opa.js';
import {
  baseEntries,
  FAST,
  following,
  publish,
  publishText,
  type StartedClient,
  startClient,
} from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** Keys in the order that OPA prints them. */
const NUMBERS = '{"big":12345678901234567890,"none":null,"one":1.0}';
const LARGE = { pad: 'x'.repeat(300_000) };

/** What every backup of {@link fill} brings back. */
async function servesAll(client: StartedClient): Promise<void> {
  await client.answers('/app/allow', { user: 'ann' }, true);
  await client.answers('/app/allow', { user: 'zoe' }, false);
  await client.holds('/static', { s: 1 });
  await client.holds('/users', { ann: true, eve: true });
  await client.holds('/large', LARGE);
  await client.holds('/app/inside', 5);
  await client.holds('/gone', undefined);
  assert.equal(await client.text('/numbers'), `{"result":${NUMBERS}}\n`);
}

/** Publishes one of each kind, and waits until the engine and the backup have it. */
async function fill(server: StartedServer, sourceUrl: string, client: StartedClient, dir: TempDir): Promise<void> {
  await client.healthy();
  await publishText(
    server.url,
    `{"entries":[{"url":"","topics":["policy_data"],"dst_path":"/numbers","data":${NUMBERS}}],"reason":"test"}`,
  );
  await publish(server.url, { dst_path: '/large', url: `${sourceUrl}/large` }, { dst_path: '/gone', data: 1 });
  await publish(server.url, { dst_path: '/app/inside', data: 5 }, { dst_path: '/gone', save_method: 'DELETE' });
  // It stands over data of the commit, so it stays; the other may be forgotten before there is a backup.
  await publish(server.url, { dst_path: '/static/hidden', save_method: 'DELETE' });
  await publish(server.url, {
    dst_path: '/users',
    save_method: 'PATCH',
    data: [{ op: 'add', path: '/eve', value: true }],
  });
  await servesAll(client);
  await backupHas(dir, [NUMBERS, LARGE.pad, '"path":"/eve"', '"kind":"delete"', 'default allow']);
}

/** What a client has made a good backup of. */
interface Made extends OfflineWorld, AsyncDisposable {
  readonly good: Buffer;
}

async function withBackup(): Promise<Made> {
  await using dir = await tempDir();
  const repo = await gitRepo();
  await repo.commit({ 'app/app.rego': APP, 'static/data.json': '{"s":1,"hidden":2}' });
  const source = await startDataSource();
  source.serve('/users', { ann: true });
  source.serve('/large', LARGE);
  const config = { headers: { authorization: 'Bearer of-the-source' } };
  const base = baseEntries({ url: `${source.url}/users`, dst_path: '/users', config });
  const server = await startServer({ ...following(repo), ...base });
  const stop = async (): Promise<void> => {
    for (const part of [server, source, repo]) await part[Symbol.asyncDispose]();
  };
  try {
    {
      await using client = await startClient({ serverUrl: server.url, env: offlineIn(dir) });
      await fill(server, source.url, client, dir);
    }
    return { good: await readFile(backupOf(dir)), server, source, repo, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A folder of a test with a backup in it. */
async function folderWith(backup: Uint8Array): Promise<TempDir> {
  const dir = await tempDir();
  await writeFile(backupOf(dir), backup);
  return dir;
}

/** Looks at a client that has started disconnected with the backup, and at the server that it is not to ask. */
async function startsFromBackup(client: StartedClient, dir: TempDir, deaf: DeafServer): Promise<void> {
  await servesAll(client);
  const health = await client.tells(
    'disconnected',
    (json) => field(json, 'connectivity', 'sync_server_connectivity_disabled') === true,
  );
  assert.equal(health.status, 200);
  assert.equal(field(health.json, 'online'), false);
  // It was made while this process ran.
  assert(Number(field(health.json, 'connectivity', 'backup', 'age_seconds')) <= process.uptime());
  assert.equal((await client.ready()).status, 200);
  assert.equal(deaf.connections(), 0);
  assert(!(await readFile(backupOf(dir), 'utf8')).includes('of-the-source'), 'no header values');
}

describe('a client that has a good backup', () => {
  let made: Made;
  before(async () => {
    made = await withBackup();
  });
  after(() => made?.[Symbol.asyncDispose]());

  for (const kind of ['inline', 'external'] as const) {
    it(`a client that starts disconnected serves the backup and never asks the server, with an ${kind} engine`, async () => {
      await using dir = await folderWith(made.good);
      await using deaf = await deafServer();
      await using opa = kind === 'external' ? await startOpa() : undefined;
      await using client = await startClient({
        serverUrl: deaf.url,
        env: offlineIn(dir, DISCONNECTED),
        ...(opa === undefined ? {} : { engineUrl: opa.url }),
      });
      await startsFromBackup(client, dir, deaf);
    });
  }

  it('a disconnected client whose engine is killed, and then is killed itself, serves the backup again without the server', async () => {
    await using dir = await folderWith(made.good);
    await using deaf = await deafServer();
    const port = await freePort();
    const env = {
      ...FAST,
      ...offlineIn(dir, DISCONNECTED),
      SYNC_SERVER_URL: deaf.url,
      SYNC_POLICY_STORE_URL: `http://127.0.0.1:${port}`,
      SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
      SYNC_CLIENT_API_SERVER_PORT: '0',
    };
    const serves = async (): Promise<void> => {
      await until(
        async () => (await request(`http://127.0.0.1:${port}/v1/data/numbers`)).text === `{"result":${NUMBERS}}\n`,
        { withinMs: 15_000, what: 'the engine has the backup' },
      );
    };
    const pids = (client: StartedCommand): number[] =>
      [...client.stderr().matchAll(/"pid":(\d+),.*engine started/g)].map(([, pid]) => Number(pid));
    {
      await using client = startCommand('client', ['run'], env);
      await serves();
      // Log lines are written together: the engine may serve before the line of its start is here.
      const first = await until(() => pids(client)[0], { withinMs: 20_000, what: 'the process id of the engine' });
      killProcess(first);
      await until(() => pids(client).length === 2, { withinMs: 20_000, what: 'another engine' });
      await serves();
      client.process.kill('SIGKILL');
      await client.result;
      // The engine of a killed client must not stand in for the next one.
      for (const pid of pids(client).slice(1)) await ended(pid);
    }
    await using again = await startClient({ serverUrl: deaf.url, env: offlineIn(dir, DISCONNECTED), enginePort: port });
    await servesAll(again);
    assert.equal(deaf.connections(), 0);
  });

  it('a client that was disconnected before it held anything takes the backup when its engine restarts', async () => {
    await using dir = await tempDir();
    await using deaf = await deafServer();
    await using client = await startClient({ serverUrl: deaf.url, env: offlineIn(dir) });
    await client.tells('ours', (json) => field(json, 'engine', 'online') === true);
    assert.equal(await switchTo(client, 'disable'), 'disabled');
    assert.equal((await client.health()).status, 503);
    assert.equal((await client.ready()).status, 503);
    await assert.rejects(readFile(backupOf(dir)), { code: 'ENOENT' });
    await writeFile(backupOf(dir), made.good);
    killProcess(client.enginePid());
    await servesAll(client);
    await client.healthy();
    assert.equal(field((await client.health()).json, 'online'), false);
  });

  it('while the backup waits for the engine, connectivity cannot be switched, and the server is not asked', async () => {
    await using dir = await folderWith(made.good);
    await using deaf = await deafServer();
    const port = await freePort();
    await using client = await startClient({
      serverUrl: deaf.url,
      engineUrl: `http://127.0.0.1:${port}`,
      env: offlineIn(dir),
    });
    for (const action of ['enable', 'disable']) {
      const answer = await postJson(`${client.url}/sync-server/connectivity/${action}`, '');
      assert.equal(answer.status, 503);
      assert.equal(answer.headers.get('retry-after'), '1');
    }
    assert.equal((await client.health()).status, 503);
    assert.equal(deaf.connections(), 0);
    await using opa = await startOpa({ port });
    assert.equal(opa.url, client.engineUrl);
    await servesAll(client);
    await until(() => deaf.connections() > 0, { withinMs: 20_000, what: 'the server is asked' });
  });

  it('a backup that was cut in the middle is refused with a reason, and the client connects', async () => {
    const bad = made.good.subarray(0, made.good.length / 2);
    const reason = /cut short|not JSON|unexpected end/;
    await using dir = await folderWith(bad);
    await using cable = await cutCable(made.server.url);
    cable.cut();
    await using client = await startClient({ serverUrl: cable.url, env: offlineIn(dir, DISCONNECTED) });
    const refused = await client.tells('refused', (json) => field(json, 'connectivity', 'backup', 'error') !== null);
    assert.match(String(field(refused.json, 'connectivity', 'backup', 'error')), reason);
    assert.equal(refused.status, 503);
    assert(client.log.some(({ msg, error }) => msg === 'the backup was refused' && reason.test(String(error))));
    await until(() => client.log.some(({ msg }) => msg === 'not connected'), { withinMs: 20_000, what: 'it tries' });
    // An engine that is empty writes no backup, however long it takes.
    await until(() => client.log.filter(({ msg }) => msg === 'not connected').length > 3, {
      withinMs: 20_000,
      what: 'time',
    });
    assert.deepEqual(await readFile(backupOf(dir)), bad);

    cable.mend();
    await client.healthy();
    await servesAll(client);
    await backupHas(dir, [NUMBERS, '"checksum"']);
    // It is set aside before the first new backup is written.
    const aside = await until(() => readFile(`${backupOf(dir)}.refused`).catch(() => undefined), {
      withinMs: 20_000,
      what: 'the refused backup to be set aside',
    });
    assert.deepEqual(aside, bad);
  });

  it('a connected client serves the backup while the server is away, then asks for the difference, and nothing flaps', async () => {
    await using dir = await folderWith(made.good);
    await using cable = await cutCable(made.server.url);
    cable.cut();
    await using client = await startClient({ serverUrl: cable.url, env: offlineIn(dir) });
    await servesAll(client);
    await client.healthy();
    assert.equal((await client.ready()).status, 200);
    assert.equal(field((await client.health()).json, 'online'), false);

    // Meanwhile: one thing changes, and one goes. No test after this one has all of the backup.
    const hash = await made.repo.commit({ 'b/b.rego': 'package b\n\nx := 1\n' });
    await publish(made.server.url, { dst_path: '/new', data: 1 }, { dst_path: '/app/inside', save_method: 'DELETE' });
    let gaps = 0;
    const stop = new AbortController();
    const watching = (async () => {
      while (!stop.signal.aborted) {
        const [users, large] = await Promise.all([client.data('/users'), client.data('/large')]);
        if (users === undefined || large === undefined || (await client.query('/app/allow', { user: 'ann' })) !== true)
          gaps++;
      }
    })();
    cable.mend();
    await client.holds('/new', 1);
    await client.holds('/app/inside', undefined);
    await client.answers('/b/x', {}, 1);
    await client.tells('the commit', (json) => field(json, 'policy', 'hash') === hash);
    await client.healthy();
    stop.abort();
    await watching;
    assert.equal(gaps, 0, 'nothing was absent at any moment');
    // The documents that did not change were not written again: no update was read from its source a second time.
    const applied = client.log.findLast(({ msg }) => msg === 'policy applied');
    assert.equal(applied?.hash, hash);
  });

  it('a client that starts disconnected serves the backup, with an embedded engine; connected it follows, and disconnected again it keeps what it has', async () => {
    await using dir = await folderWith(made.good);
    await using deaf = await deafServer();
    await using cable = await cutCable(deaf.url);
    const env = offlineIn(dir, { ...DISCONNECTED, SYNC_STORE_BACKUP_INTERVAL: '3600' });
    await using client = await startClient({ serverUrl: cable.url, env, engine: 'embedded' });
    await startsFromBackup(client, dir, deaf);
    cable.connectTo(made.server.url);
    assert.equal(await switchTo(client, 'enable'), 'enabled');
    await keepsAndCatchesUp(client, dir, made, { joe: true, eve: true });
  });
});

/** Ends an engine that is left, and waits until it is gone. */
async function ended(pid: number): Promise<void> {
  const isThere = (signal: NodeJS.Signals | 0): boolean => {
    try {
      return process.kill(pid, signal);
    } catch {
      return false; // it is gone already
    }
  };
  isThere('SIGKILL');
  await until(() => !isThere(0), { withinMs: 20_000, what: `engine ${pid} is gone` });
}

/** A complete bundle of one module. */
function complete(rego: string): object {
  return {
    manifest: ['app.rego'],
    hash: 'one',
    old_hash: null,
    data_modules: [],
    policy_modules: [{ path: 'app.rego', package_name: 'app', rego }],
    deleted_files: null,
  };
}

describe('a client with another backup, or none', () => {
  it('a connected client whose engine is killed has everything again, and asks the server and the sources after that', async () => {
    await using dir = await tempDir();
    await using source = await startDataSource();
    source.serve('/users', { ann: true });
    await using opal = await startFakeOpal();
    opal.policy = () => complete(APP);
    opal.entries = [{ url: `${source.url}/users`, dst_path: '/users', topics: ['policy_data'] }];
    await using client = await startClient({ serverUrl: opal.url, env: offlineIn(dir) });
    await client.healthy();
    await client.answers('/app/allow', { user: 'ann' }, true);
    const requests = opal.requests.length;
    // Changed without a word to anybody; and the source takes its time.
    let answer = (): void => undefined;
    const after = new Promise<void>((resolve) => {
      answer = resolve;
    });
    source.answer('/users', { text: '{"ann":true,"bob":true}', after });
    // The notice of this commit was lost; what is asked for again brings it.
    opal.policy = () => ({ ...complete(`${APP}\nmore := 1\n`), hash: 'two' });
    killProcess(client.enginePid());
    await client.answers('/app/more', {}, 1);
    await client.answers('/app/allow', { user: 'ann' }, true);
    await until(() => opal.requests.length >= requests + 2, {
      withinMs: 20_000,
      what: 'policy and configuration are read',
    });
    assert.deepEqual(opal.requests.slice(requests).sort(), ['/data/config', '/policy?path=.']);
    assert.deepEqual(await client.data('/users'), { ann: true });
    await client.healthy();
    answer();
    await client.holds('/users', { ann: true, bob: true });
    await client.healthy();
  });

  it('a client that was to start disconnected and has no backup warns, and connects', async () => {
    await using dir = await tempDir();
    await using server = await startServer();
    await publish(server.url, { dst_path: '/a', data: 1 });
    await using client = await startClient({
      serverUrl: server.url,
      env: offlineIn(dir, { ...DISCONNECTED, SYNC_POLICY_UPDATER_ENABLED: 'false' }),
    });
    await client.holds('/a', 1);
    await client.healthy();
    assert.equal(field((await client.health()).json, 'online'), true);
    assert(
      client.log.some(
        ({ msg, reason }) => msg.startsWith('the client was to start disconnected') && reason === 'there is no backup',
      ),
    );
  });

  it('a client that was to start disconnected with offline mode off warns, and connects', async () => {
    await using server = await startServer();
    await using client = await startClient({
      serverUrl: server.url,
      env: { ...DISCONNECTED, SYNC_POLICY_UPDATER_ENABLED: 'false' },
    });
    await client.healthy();
    await isConnected(client, true);
    assert(client.log.some(({ reason }) => reason === 'offline mode is off'));
  });

  it('a backup whose policy the engine refuses is refused whole, and the client connects', async () => {
    await using dir = await tempDir();
    await using opa = await startOpa();
    // Written by an OPAL client whose engine reads another version of Rego.
    const policies = { 'old.rego': 'package old\n\nallow { true }\n' };
    await writeFile(backupOf(dir), JSON.stringify({ policies, data: { users: { ann: true }, rest: 1 } }));
    await using server = await startServer();
    await using cable = await cutCable(server.url);
    cable.cut();
    await using client = await startClient({
      serverUrl: cable.url,
      engineUrl: opa.url,
      env: offlineIn(dir, DISCONNECTED),
    });
    const refused = await client.tells('refused', (json) => field(json, 'connectivity', 'backup', 'error') !== null);
    assert.match(
      String(field(refused.json, 'connectivity', 'backup', 'error')),
      /the engine refuses it: old\.rego:3: .*if/,
    );
    await client.holds('/users', undefined);
    await client.holds('/rest', undefined);
    await client.tells('ours', (json) => field(json, 'engine', 'online') === true);
  });

  it('the commit of the backup is the base of the first delta; another directory is asked for as a whole', async () => {
    await using dir = await tempDir();
    await using opal = await startFakeOpal();
    const nothing = { old_hash: 'one', policy_modules: [], deleted_files: { data_modules: [], policy_modules: [] } };
    opal.policy = (base) => ({ ...complete(APP), ...(base === 'one' ? nothing : {}) });
    const asked = (): string[] => opal.requests.filter((path) => path.startsWith('/policy'));
    const lives: [env: Record<string, string>, expected: string][] = [
      [{}, '/policy?path=.'],
      [{}, '/policy?path=.&base_hash=one'],
      [{ SYNC_POLICY_SUBSCRIPTION_DIRS: 'app' }, '/policy?path=app'],
    ];
    for (const [env, expected] of lives) {
      const before = asked().length;
      await using client = await startClient({ serverUrl: opal.url, env: offlineIn(dir, env) });
      await client.healthy();
      await until(() => asked().length > before, { withinMs: 20_000, what: 'the policy is asked for' });
      assert.deepEqual(asked().slice(before), [expected]);
      await client.answers('/app/allow', { user: 'ann' }, false);
      await backupHas(dir, ['default allow']);
    }
  });

  it("an OPAL client's backup is served, and gives way to what the server has", async () => {
    await using dir = await tempDir();
    await using repo = await gitRepo();
    const file = `{"policies": {"app/app.rego": ${JSON.stringify(APP)}}, "data": {"users": {"ann": true, "bob": true}, "n": ${NUMBERS}, "old": {"a": 1, "b": 2}}}`;
    await writeFile(backupOf(dir), file);
    await using deaf = await deafServer();
    {
      await using client = await startClient({ serverUrl: deaf.url, env: offlineIn(dir, DISCONNECTED) });
      await client.answers('/app/allow', { user: 'bob' }, true);
      assert.equal(await client.text('/n'), `{"result":${NUMBERS}}\n`);
      await client.healthy();
      assert.equal(field((await client.health()).json, 'policy', 'hash'), null);
      assert.equal(deaf.connections(), 0);
      assert.equal(await switchTo(client, 'disable'), 'already_disabled');
    }
    await repo.commit({ 'app/app.rego': APP.replace('users', 'people') });
    await using source = await startDataSource();
    source.serve('/people', { eve: true });
    await using server = await startServer({
      ...following(repo),
      ...baseEntries({ url: `${source.url}/people`, dst_path: '/people' }),
    });
    await publish(server.url, { dst_path: '/old/a', data: 9 });
    await using client = await startClient({ serverUrl: server.url, env: offlineIn(dir) });
    await client.answers('/app/allow', { user: 'eve' }, true);
    await client.holds('/old', { a: 9, b: 2 });
    await client.healthy();
    await backupHas(dir, ['policysync-backup', '"people"']);
  });

  it('a client of other topics than its backup takes only what is its own', async () => {
    await using dir = await tempDir();
    await using server = await startServer();
    const only = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
    {
      await using client = await startClient({
        serverUrl: server.url,
        env: offlineIn(dir, { ...only, SYNC_DATA_TOPICS: 'a,b' }),
      });
      await client.healthy();
      await publish(server.url, { topics: ['a'], dst_path: '/a', data: 1 });
      await publish(server.url, { topics: ['b'], dst_path: '/b', data: 1 });
      await client.holds('/a', 1);
      await client.holds('/b', 1);
    }
    await using deaf = await deafServer();
    await using client = await startClient({
      serverUrl: deaf.url,
      env: offlineIn(dir, { ...only, ...DISCONNECTED, SYNC_DATA_TOPICS: 'a' }),
    });
    await client.holds('/a', 1);
    await client.holds('/b', undefined);
  });
});
