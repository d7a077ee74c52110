import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { type StartedCommand, startCommand } from '../support/command.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { createServer, loadSettings, SERVER_SETTINGS, silentLogger } from '../support/library.js';
import { freePort, testOpa } from '../support/opa.js';
import { NO_GATE } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

type Line = Readonly<Record<string, unknown>>;

/** The lines that a program has logged. */
function linesOf(command: StartedCommand): Line[] {
  return command
    .stderr()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Line);
}

test('the log of running programs', async (t) => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  await repo.commit({
    'app.rego': 'package app\n\nallow if input.admin\n',
    ...Object.fromEntries(['one', 'two', 'three'].map((name) => [`${name}/${name}.rego`, `package ${name}\n`])),
  });
  const keys = keyPair();
  const [serverPort, clientPort] = [await freePort(), await freePort()];
  const [serverUrl, clientUrl] = [`http://127.0.0.1:${serverPort}`, `http://127.0.0.1:${clientPort}`];
  await using server = startCommand('server', ['run'], {
    ...withKeys(keys),
    SYNC_SERVER_BIND_PORT: String(serverPort),
    SYNC_STATE_DIR: join(dir.path, 'state'),
    ...NO_GATE,
    SYNC_POLICY_REPO_URL: repo.url,
    SYNC_POLICY_REPO_POLLING_INTERVAL: '0.2',
  });
  await server.says(/sync server is listening/);
  const asked = { listener: {}, datasource: {}, client: {}, limited: { claims: { permitted_topics: ['a'] } } };
  const tokens = new Map<string, string>();
  for (const [name, more] of Object.entries(asked)) {
    tokens.set(name, await tokenOf(serverUrl, { type: name === 'limited' ? 'datasource' : name, ...more }));
  }
  const as = (name: string): { authorization: string } => bearer(tokens.get(name) ?? '');
  await using client = startCommand('client', ['run'], {
    SYNC_SERVER_URL: serverUrl,
    SYNC_CLIENT_TOKEN: tokens.get('client') ?? '',
    SYNC_AUTH_PUBLIC_KEY: keys.publicKey,
    SYNC_CLIENT_API_SERVER_PORT: String(clientPort),
    SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
    SYNC_ENGINE: 'inline',
    SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
  });
  await client.says(/"msg":"policy applied"/);
  await until(async () => (await request(`${clientUrl}/healthy`)).status === 200, {
    withinMs: 60_000,
    what: 'the client is healthy',
  });
  const levels = async (url: string): Promise<unknown> =>
    (await request(`${url}/log-level`, { headers: as('listener') })).json;
  const change = (url: string, body: object, who = 'listener') => postJson(`${url}/log-level`, body, as(who));
  const publish = async (entries: object[]): Promise<number> => {
    const url = `${serverUrl}/data/config?wait=applied&timeout=20s`;
    const answer = await postJson(url, { entries, reason: 'why' }, as('datasource'));
    assert.equal(answer.status, 200, answer.text);
    return Number(field(answer.json, 'seq'));
  };
  const entry = (path: string): object => ({ url: '', topics: ['policy_data'], dst_path: path, data: { a: 1 } });

  await t.test('a client writes one line at info for each transaction', async () => {
    const before = linesOf(client).length;
    const seq = await publish([entry('/users'), entry('/groups')]);
    await repo.commit({ 'app.rego': 'package app\n\nallow if input.root\n' });
    const linesAfter = (): Line[] => linesOf(client).slice(before);
    await until(() => linesAfter().some(({ msg }) => msg === 'policy applied'), {
      withinMs: 20_000,
      what: 'the commit is applied',
    });
    const [data, policy, ...others] = linesAfter();
    assert.deepEqual(others, []);
    assert(typeof data?.duration_ms === 'number' && typeof policy?.duration_ms === 'number');
    assert.deepEqual(
      { ...data, time: 0, duration_ms: 0, update_id: 0 },
      {
        ...{ level: 'info', time: 0, name: 'sync-client', component: 'data', update_id: 0, seq, reason: 'why' },
        ...{ entries: 2, paths: ['/users', '/groups'], duration_ms: 0, outcome: 'applied', msg: 'data transaction' },
      },
    );
    assert.deepEqual(
      { ...policy, time: 0, duration_ms: 0 },
      {
        ...{
          level: 'info',
          time: 0,
          name: 'sync-client',
          component: 'policy',
          hash: await repo.git('rev-parse', 'HEAD'),
        },
        ...{ modules: 4, data_files: 0, duration_ms: 0, outcome: 'applied', msg: 'policy applied' },
      },
    );
  });

  await t.test('GET /log-level is for listeners and publishers whose tokens have no limits', async () => {
    for (const url of [serverUrl, clientUrl]) {
      const statuses = ['listener', 'datasource', 'client', 'limited'].map(async (who) => {
        const read = await request(`${url}/log-level`, { headers: as(who) });
        return [read.status, (await change(url, { level: 'info' }, who)).status];
      });
      assert.deepEqual(await Promise.all(statuses), [
        [200, 200],
        [200, 200],
        [401, 401],
        [401, 401],
      ]);
      assert.equal((await request(`${url}/log-level`)).status, 401);
      assert.equal(field(await levels(url), 'level'), 'info');
      assert.equal(field(await levels(url), 'components', 'policy'), 'info');
    }
  });

  await t.test('POST /log-level changes one component, and back', async () => {
    const built = (): number => linesOf(server).filter(({ msg }) => msg === 'bundle built').length;
    const bundle = async (path: string): Promise<void> => {
      assert.equal((await request(`${serverUrl}/policy?path=${path}`, { headers: as('client') })).status, 200);
      // A line that is written after those of the request.
      assert.equal((await change(serverUrl, { level: 'info', component: 'http' })).status, 200);
      const changes = linesOf(server).filter(({ of }) => of === 'http').length;
      await until(() => linesOf(server).filter(({ of }) => of === 'http').length > changes, {
        withinMs: 10_000,
        what: 'the lines are written',
      });
    };
    await bundle('one');
    assert.equal(built(), 0);
    const { status, json } = await change(serverUrl, { level: 'debug', component: 'bundles' });
    assert.deepEqual(
      [status, field(json, 'components', 'bundles'), field(json, 'components', 'policy')],
      [200, 'debug', 'info'],
    );
    await bundle('two');
    assert.equal(built(), 1);
    assert.equal((await change(serverUrl, { level: 'default' })).status, 200);
    await bundle('three');
    assert.equal(built(), 1);
  });

  await t.test('POST /log-level with for_seconds ends by itself; what it cannot do it says', async () => {
    const { json } = await change(clientUrl, { level: 'debug', for_seconds: 1 });
    assert.equal(field(json, 'level'), 'debug');
    assert(Date.parse(String(field(json, 'temporary', 0, 'until'))) > Date.now() - 1000);
    await until(async () => field(await levels(clientUrl), 'level') === 'info', {
      withinMs: 10_000,
      what: 'it is over',
    });
    assert.deepEqual(field(await levels(clientUrl), 'temporary'), []);
    for (const [body, message] of [
      [{ level: 'debug', component: 'polcy' }, /no component .*polcy.*did you mean policy\? \(.*data.*\)/],
      [{ level: 'default', for_seconds: 3 }, /for_seconds/],
      [{ level: 'silent' }, /level/],
      [{ level: 'debug', for_seconds: 0 }, /for_seconds/],
      [{ level: 'debug', componet: 'data' }, /componet/],
    ] as const) {
      const refused = await change(clientUrl, body);
      assert.equal(refused.status, 422, refused.text);
      assert.match(refused.text, message);
    }
  });

  await t.test('SIGUSR2 turns debug lines on and off', async () => {
    const received = (): number => linesOf(client).filter(({ msg }) => msg === 'data update received').length;
    const said = (level: string) =>
      client.says(new RegExp(`"to":"${level}","msg":"the level of the log is changed by SIGUSR2"`));
    const before = received();
    client.process.kill('SIGUSR2');
    await said('debug');
    await publish([entry('/users')]);
    await until(() => received() === before + 1, { withinMs: 10_000, what: 'a debug line is written' });
    client.process.kill('SIGUSR2');
    await said('info');
    assert.equal(field(await levels(clientUrl), 'level'), 'info');
  });

  await t.test('each line has its time as ISO 8601 and its level by name', () => {
    for (const line of [...linesOf(server), ...linesOf(client)]) {
      assert.match(String(line.time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      assert.match(String(line.level), /^(?:debug|info|warn|error)$/);
    }
  });
});

test('a program that runs a server with a logger of its own sets the level itself: 501', async () => {
  await using dir = await tempDir();
  const { values } = loadSettings(SERVER_SETTINGS, { env: { SYNC_SERVER_BIND_PORT: '0' } });
  const server = createServer({ ...values, stateDir: dir.path }, { log: silentLogger(), env: {} });
  const { url } = await server.start();
  try {
    for (const answer of [await request(`${url}/log-level`), await postJson(`${url}/log-level`, { level: 'debug' })]) {
      assert.deepEqual([answer.status, answer.headers.get('x-sync-error')], [501, 'not_enabled']);
    }
  } finally {
    await server.stop();
  }
});
