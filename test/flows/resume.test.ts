import assert from 'node:assert/strict';
import { copyFile, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { type StartedCommand, startCommand } from '../support/command.js';
import { startDataSource } from '../support/data-source.js';
import { type EngineWrites, engineWrites } from '../support/engine-writes.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { backupOf, offlineIn } from '../support/offline.js';
import { freePort, startOpa, type TestOpa } from '../support/opa.js';
import { baseEntries, FAST, following, publish } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** A client that is started again while its engine, which somebody else runs, has gone on. */

const MODULE = 'package app\n\nimport rego.v1\n\ndefault allow := false\n\nallow if data.users[input.user]\n';
const SELDOM = { SYNC_STORE_BACKUP_INTERVAL: '3600' };
const WITHIN = { withinMs: 30_000 };
/** Everything that a client with an empty engine writes for {@link fill}. */
const ALL = /PUT \/v1\/policies\/app\.rego/;

interface Stage extends AsyncDisposable {
  readonly dir: TempDir;
  readonly repo: GitRepo;
  readonly server: StartedServer;
  readonly opa: TestOpa;
  readonly writes: EngineWrites;
  /** A client in a process of its own; it has the backup of the one before. */
  client(env?: Record<string, string>): StartedCommand;
  /** Document of the engine, as a value. */
  data(path: string): Promise<unknown>;
  holds(path: string, value: unknown): Promise<void>;
  /** The engine has the seal of the backup that is there. */
  sealed(): Promise<void>;
}

async function stage(): Promise<Stage> {
  const parts: AsyncDisposable[] = [];
  const use = <T extends AsyncDisposable>(part: T): T => {
    parts.unshift(part);
    return part;
  };
  const dir = use(await tempDir());
  const repo = use(await gitRepo());
  await repo.commit({ 'app.rego': MODULE, 'static/data.json': '{"s":1}' });
  const source = use(await startDataSource());
  source.serve('/users', { ann: true });
  const base = baseEntries({ url: `${source.url}/users`, dst_path: '/users' });
  const server = use(await startServer({ ...following(repo), ...base }));
  const port = await freePort();
  const opa = use(await startOpa({ port }));
  const writes = use(await engineWrites(opa.url));
  const data = async (path: string): Promise<unknown> =>
    field((await request(`${opa.url}/v1/data${path}`)).json, 'result');
  return {
    dir,
    repo,
    server,
    opa,
    writes,
    client: (env = {}) =>
      startCommand('client', ['run'], {
        ...FAST,
        ...offlineIn(dir),
        SYNC_SERVER_URL: server.url,
        SYNC_POLICY_STORE_URL: writes.url,
        SYNC_INLINE_ENGINE_ENABLED: 'false',
        SYNC_CLIENT_API_SERVER_PORT: '0',
        SYNC_POLICY_STORE_TIMEOUT: '2',
        ...env,
      }),
    data,
    holds: async (path, value) => {
      const wanted = JSON.stringify(value);
      await until(async () => JSON.stringify(await data(path)) === wanted, { ...WITHIN, what: `${path} is ${wanted}` });
    },
    sealed: async () => {
      const look = async (): Promise<boolean> => {
        const id = /"id":"([^"]+)"/.exec(await readFile(backupOf(dir), 'utf8').catch(() => ''))?.[1];
        return id !== undefined && field(await data('/system/policysync/marker'), 'backup') === id;
      };
      await until(look, { ...WITHIN, what: 'the engine is sealed' });
    },
    [Symbol.asyncDispose]: async () => {
      for (const part of parts) await part[Symbol.asyncDispose]();
    },
  };
}

/** One of each kind goes in, and into the backup. */
async function fill({ server, holds, sealed }: Stage): Promise<void> {
  await holds('/users', { ann: true });
  await holds('/app/allow', false);
  await publish(server.url, { dst_path: '/list', data: { n: 1 } }, { dst_path: '/gone', data: 1 });
  await publish(server.url, {
    dst_path: '/users',
    save_method: 'PATCH',
    data: [{ op: 'add', path: '/eve', value: true }],
  });
  await holds('/list', { n: 1 });
  await holds('/users', { ann: true, eve: true });
  await sealed();
}

async function killed(client: StartedCommand): Promise<void> {
  client.process.kill('SIGKILL');
  await client.result;
}

/** It follows the server, and all that it has to read was read. */
async function caughtUp(client: StartedCommand): Promise<void> {
  const [, url = ''] = await client.says(/"url":"(http:[^"]+)".*listening/);
  await until(async () => (await request(`${url}/healthy`)).status === 200, { ...WITHIN, what: 'it is healthy' });
  await client.says(/data transaction/);
  const online = async (): Promise<boolean> => field((await request(`${url}/healthy`)).json, 'online') === true;
  await until(online, { ...WITHIN, what: 'it is online' });
}

test('a client that is killed and comes back writes nothing that its engine holds, and what it missed', async () => {
  await using all = await stage();
  {
    await using first = all.client();
    await fill(all);
    await killed(first);
  }
  const before = all.writes.all.length;
  {
    await using second = all.client();
    await caughtUp(second);
    assert.deepEqual(all.writes.since(before), []);
    await killed(second);
  }
  // Nothing has changed: the seal is still that of the backup.
  await all.sealed();
  await publish(all.server.url, { dst_path: '/missed', data: 1 }, { dst_path: '/gone', save_method: 'DELETE' });
  await publish(all.server.url, {
    dst_path: '/list',
    save_method: 'PATCH',
    data: [{ op: 'add', path: '/m', value: 2 }],
  });
  await using third = all.client();
  await all.holds('/missed', 1);
  await all.holds('/list', { m: 2, n: 1 });
  await all.holds('/gone', undefined);
  await caughtUp(third);
  assert.deepEqual(await all.data('/users'), { ann: true, eve: true });
  const written = all.writes.since(before).join('\n');
  assert(!written.includes('/v1/policies') && !written.includes('/users'), written);
  await all.sealed();
  // Drift, probes, reports: nothing of it breaks the seal or writes.
  await third.says(/"written":false/);
});

test('an engine that started anew meanwhile gets everything, and so does one that another client has filled', async () => {
  await using all = await stage();
  {
    await using first = all.client();
    await fill(all);
    await killed(first);
  }
  await all.opa.kill();
  await using opa = await startOpa({ port: all.opa.port });
  let before = all.writes.all.length;
  {
    await using second = all.client();
    await all.holds('/users', { ann: true, eve: true });
    await all.holds('/list', { n: 1 });
    await caughtUp(second);
    await all.sealed();
    assert.match(all.writes.since(before).join('\n'), ALL);
    await killed(second);
  }
  {
    await using elsewhere = await tempDir();
    await using other = all.client({ ...offlineIn(elsewhere), SYNC_DATA_TOPICS: 'other' });
    await other.says(/engine holds our state/);
    await killed(other);
  }
  await request(`${opa.url}/v1/data/list`, { method: 'PUT', body: '"not ours"' });
  before = all.writes.all.length;
  await using third = all.client();
  await all.holds('/list', { n: 1 });
  await caughtUp(third);
  await third.says(/"written":true/);
});

test('a client that is killed before its backup has what the engine got writes everything again', async () => {
  await using all = await stage();
  {
    await using first = all.client();
    await fill(all);
    await killed(first);
  }
  {
    await using second = all.client(SELDOM);
    await caughtUp(second);
    await publish(all.server.url, { dst_path: '/list', data: { n: 2 } });
    await all.holds('/list', { n: 2 });
    await killed(second);
  }
  assert.equal(field(await all.data('/system/policysync/marker'), 'backup'), undefined);
  const before = all.writes.all.length;
  await using third = all.client();
  await all.holds('/list', { n: 2 });
  await caughtUp(third);
  await third.says(/"written":true/);
  assert(all.writes.since(before).length > 0);
  await all.sealed();
});

test('a client that is stopped in order seals the engine with its last backup', async () => {
  await using all = await stage();
  {
    await using first = all.client();
    await fill(all);
    await killed(first);
  }
  {
    await using second = all.client(SELDOM);
    await caughtUp(second);
    await publish(all.server.url, { dst_path: '/list', data: { n: 2 } });
    await all.holds('/list', { n: 2 });
    second.process.kill('SIGTERM');
    await second.result;
  }
  await all.sealed();
  const before = all.writes.all.length;
  await using third = all.client();
  await caughtUp(third);
  assert.deepEqual(all.writes.since(before), []);
});

test('a backup that is not the one of the seal, or has more than is wanted now, is written in full', async () => {
  await using all = await stage();
  const older = `${backupOf(all.dir)}.older`;
  {
    await using first = all.client();
    await fill(all);
    await copyFile(backupOf(all.dir), older);
    await publish(
      all.server.url,
      { dst_path: '/list', data: { n: 2 } },
      { dst_path: '/o', data: 1, topics: ['other'] },
    );
    await all.holds('/list', { n: 2 });
    await all.sealed();
    await killed(first);
  }
  await copyFile(older, backupOf(all.dir));
  {
    await using second = all.client({ SYNC_DATA_TOPICS: 'policy_data,other' });
    await all.holds('/o', 1);
    await all.holds('/list', { n: 2 });
    await second.says(/"written":true/);
    await all.sealed();
    await killed(second);
  }
  {
    // It leaves out a topic: the file has more than it holds, and is not what the engine is sealed with after that.
    await using third = all.client();
    await caughtUp(third);
    await third.says(/"written":true/);
    await all.sealed();
    await killed(third);
  }
  assert(!(await readFile(backupOf(all.dir), 'utf8')).includes('"path":["o"]'));
});

test('policies that somebody took out of a sealed engine are put back', async () => {
  await using all = await stage();
  {
    await using first = all.client();
    await fill(all);
    await killed(first);
  }
  await request(`${all.opa.url}/v1/policies/app.rego`, { method: 'DELETE' });
  const before = all.writes.all.length;
  await using second = all.client();
  await all.holds('/app/allow', false);
  await caughtUp(second);
  assert.deepEqual(all.writes.since(before), ['PUT /v1/policies/app.rego']);
});
