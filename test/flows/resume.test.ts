import assert from 'node:assert/strict';
import { copyFile, readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { type StartedCommand, startCommand } from '../support/command.js';
import { startDataSource } from '../support/data-source.js';
import { type EngineWrites, engineWrites } from '../support/engine-writes.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { type Answer, field, request } from '../support/http.js';
import { backupOf, offlineIn } from '../support/offline.js';
import { freePort, startOpa, type TestOpa } from '../support/opa.js';
import { baseEntries, FAST, following, publish, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const MODULE = 'package app\n\nimport rego.v1\n\ndefault allow := false\n\nallow if data.users[input.user]\n';
const SELDOM = { SYNC_STORE_BACKUP_INTERVAL: '3600' };
const WITHIN = { withinMs: 30_000 };
/** One life of the client. */
interface Life extends AsyncDisposable {
  /** It follows the server, and all that it has to read was read. */
  caughtUp(): Promise<void>;
  /** It has taken its backup over: as what the engine holds, or by writing it. */
  resumed(by: 'seal' | 'writing'): Promise<void>;
}

interface Stage extends AsyncDisposable {
  readonly dir: TempDir;
  readonly repo: GitRepo;
  readonly server: StartedServer;
  readonly opa: TestOpa;
  readonly writes: EngineWrites;
  /** A client in a process of its own, which can be killed; it has the backup of the one before. */
  process(env?: Record<string, string>): Promise<Life & { readonly command: StartedCommand }>;
  /** One in this process; it ends in order. */
  client(env?: Record<string, string>): Promise<Life>;
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
  const server = use(await startServer({ ...following(repo), SYNC_POLICY_REPO_POLLING_INTERVAL: '0', ...base }));
  const port = await freePort();
  const opa = use(await startOpa({ port }));
  const writes = use(await engineWrites(opa.url));
  const own = { ...offlineIn(dir), SYNC_POLICY_STORE_TIMEOUT: '1' };
  const data = async (path: string): Promise<unknown> =>
    field((await request(`${opa.url}/v1/data${path}`)).json, 'result');
  return {
    dir,
    repo,
    server,
    opa,
    writes,
    process: async (env = {}) => {
      const settings = { ...FAST, ...own, SYNC_SERVER_URL: server.url, SYNC_POLICY_STORE_URL: writes.url };
      const ports = { SYNC_INLINE_ENGINE_ENABLED: 'false', SYNC_CLIENT_API_SERVER_PORT: '0' };
      const command = startCommand('client', ['run'], { ...settings, ...ports, ...env });
      const [, url = ''] = await command.says(/"url":"(http:[^"]+)".*listening/);
      return { command, ...lifeOf(url, async (pattern) => void (await command.says(pattern)), command) };
    },
    client: async (env = {}) => {
      const client = await startClient({ serverUrl: server.url, engineUrl: writes.url, env: { ...own, ...env } });
      const says = async (pattern: RegExp): Promise<void> => {
        const isSaid = (): boolean => client.log.some((line) => pattern.test(JSON.stringify(line)));
        await until(isSaid, { ...WITHIN, what: `it says ${pattern}` });
      };
      return lifeOf(client.url, says, client);
    },
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

function lifeOf(url: string, says: (pattern: RegExp) => Promise<void>, owner: AsyncDisposable): Life {
  const health = (): Promise<Answer> => request(`${url}/healthy`);
  return {
    caughtUp: async () => {
      await until(async () => (await health()).status === 200, { ...WITHIN, what: 'it is healthy' });
      await says(/data transaction/);
      const online = async (): Promise<boolean> => field((await health()).json, 'online') === true;
      await until(online, { ...WITHIN, what: 'it is online' });
    },
    resumed: (by) => says(by === 'seal' ? /"written":false/ : /"written":true/),
    [Symbol.asyncDispose]: () => owner[Symbol.asyncDispose](),
  };
}

async function killed(
  { command }: { command: StartedCommand },
  signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL',
): Promise<void> {
  command.process.kill(signal);
  await command.result;
}

describe('a client that is started again while its engine has gone on', () => {
  let all: Stage;
  before(async () => {
    all = await stage();
  });
  after(() => all[Symbol.asyncDispose]());

  /** Another value for /list, from a client that makes no backup before it ends. */
  async function publishedTo(life: Life, n: number): Promise<void> {
    await life.caughtUp();
    await publish(all.server.url, { dst_path: '/list', data: { n } });
    await all.holds('/list', { n });
  }

  it('writes nothing that its engine holds after it was killed, and what it missed', async () => {
    {
      await using first = await all.process();
      await fill(all);
      await killed(first);
    }
    const before = all.writes.all.length;
    {
      await using second = await all.process();
      await second.caughtUp();
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
    await using third = await all.client();
    await all.holds('/missed', 1);
    await all.holds('/list', { m: 2, n: 1 });
    await all.holds('/gone', undefined);
    await third.caughtUp();
    assert.deepEqual(await all.data('/users'), { ann: true, eve: true });
    const written = all.writes.since(before).join('\n');
    assert(!written.includes('/v1/policies') && !written.includes('/users'), written);
    // Drift, probes, reports: nothing of it breaks the seal or writes.
    await all.sealed();
    await third.resumed('seal');
  });

  it('puts policies back that somebody took out of the sealed engine', async () => {
    await request(`${all.opa.url}/v1/policies/app.rego`, { method: 'DELETE' });
    const before = all.writes.all.length;
    await using client = await all.client();
    await all.holds('/app/allow', false);
    await client.caughtUp();
    assert.deepEqual(all.writes.since(before), ['PUT /v1/policies/app.rego']);
  });

  it('writes everything again after it was killed before its backup had what the engine got', async () => {
    {
      await using unsealed = await all.process(SELDOM);
      await publishedTo(unsealed, 2);
      await killed(unsealed);
    }
    assert.equal(field(await all.data('/system/policysync/marker'), 'backup'), undefined);
    const before = all.writes.all.length;
    await using next = await all.client();
    await all.holds('/list', { n: 2 });
    await next.caughtUp();
    await next.resumed('writing');
    assert(all.writes.since(before).length > 0);
    await all.sealed();
  });

  it('seals the engine with its last backup when it is stopped in order', async () => {
    {
      await using stopped = await all.process(SELDOM);
      await publishedTo(stopped, 3);
      await killed(stopped, 'SIGTERM');
    }
    await all.sealed();
    const before = all.writes.all.length;
    await using next = await all.client();
    await next.caughtUp();
    assert.deepEqual(all.writes.since(before), []);
  });

  it('writes a backup in full that is not the one of the seal, or has more than is wanted now', async () => {
    const older = `${backupOf(all.dir)}.older`;
    await copyFile(backupOf(all.dir), older);
    {
      await using client = await all.client();
      await client.caughtUp();
      await publish(
        all.server.url,
        { dst_path: '/list', data: { n: 4 } },
        { dst_path: '/o', data: 1, topics: ['other'] },
      );
      await all.holds('/list', { n: 4 });
      await all.sealed();
    }
    await copyFile(older, backupOf(all.dir));
    {
      await using client = await all.client({ SYNC_DATA_TOPICS: 'policy_data,other' });
      await all.holds('/o', 1);
      await all.holds('/list', { n: 4 });
      await client.resumed('writing');
      await all.sealed();
    }
    {
      // It leaves out a topic: the file has more than it holds, and is not what the engine is sealed with after that.
      await using client = await all.client();
      await client.caughtUp();
      await client.resumed('writing');
      await all.sealed();
    }
    assert(!(await readFile(backupOf(all.dir), 'utf8')).includes('"path":["o"]'));
  });

  it('gives everything to an engine that started anew meanwhile, and to one that another client has filled', async () => {
    await all.opa.kill();
    await using opa = await startOpa({ port: all.opa.port });
    let before = all.writes.all.length;
    {
      await using client = await all.client();
      await all.holds('/users', { ann: true, eve: true });
      await all.holds('/list', { n: 4 });
      await client.caughtUp();
      await all.sealed();
      assert.match(all.writes.since(before).join('\n'), /PUT \/v1\/policies\/app\.rego/);
    }
    {
      await using elsewhere = await tempDir();
      await using other = await all.client({ ...offlineIn(elsewhere), SYNC_DATA_TOPICS: 'other' });
      await other.caughtUp();
    }
    await request(`${opa.url}/v1/data/list`, { method: 'PUT', body: '"not ours"' });
    before = all.writes.all.length;
    await using client = await all.client();
    await all.holds('/list', { n: 4 });
    await client.caughtUp();
    await client.resumed('writing');
  });
});
