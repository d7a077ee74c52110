import assert from 'node:assert/strict';
import { chmod, lstat, mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { bundleOf } from '../support/archive.js';
import { bundleHttpServer } from '../support/bundle-http-server.js';
import { gitHttpServer } from '../support/git-http-server.js';
import { gitRepoAt } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { publish, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** What another user of the machine can read of a server's and a client's state: nothing. */

const posix = { skip: process.platform === 'win32' && 'Windows has no modes' };

/** All below a folder that is not its owner's alone, with the mode. */
async function openIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  for (const { name, parentPath } of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const { mode } = await lstat(join(parentPath, name));
    if ((mode & 0o077) !== 0) found.push(`${join(parentPath, name)} ${(mode & 0o777).toString(8)}`);
  }
  return found;
}

function recorder(): { log: pino.Logger; warned(): string[] } {
  const lines: { level: number; msg: string }[] = [];
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) });
  return { log, warned: () => lines.filter(({ level }) => level === 40).map(({ msg }) => msg) };
}

async function serves({ url }: StartedServer, hash: string): Promise<void> {
  await until(async () => field((await request(`${url}/healthcheck`)).json, 'policy', 'head') === hash, {
    withinMs: 15_000,
    what: `commit ${hash} is served`,
  });
}

test(
  'every file of the state folder is closed to others, also in a folder that somebody else made, which is named',
  posix,
  async () => {
    await using dir = await tempDir();
    const stateDir = join(dir.path, 'state');
    await mkdir(stateDir);
    await chmod(stateDir, 0o755);
    const repo = await gitRepoAt(join(dir.path, 'repo'));
    const first = await repo.commit({ 'a.rego': 'package a', 'data.json': '{"secret":1}' });
    await using git = await gitHttpServer(dir.path);
    const env = { SYNC_POLICY_REPO_URL: `${git.url}/repo/.git`, SYNC_POLICY_REPO_POLLING_INTERVAL: '0.1' };
    const { log, warned } = recorder();
    {
      await using server = await startServer(env, { stateDir, log });
      await serves(server, first);
      await publish(server.url, { dst_path: '/a', data: { secret: 2 } });
      await serves(server, await repo.commit({ 'b.rego': 'package b' }));
      assert.deepEqual(await openIn(stateDir), []);
    }
    assert.deepEqual(await openIn(stateDir), []);
    const about = warned().filter((line) => line.includes(stateDir));
    assert.deepEqual(about, [
      `SYNC_STATE_DIR: the folder ${stateDir} may be read by other users of this machine (mode 755): chmod 700 ${stateDir}`,
    ]);

    // What an older version left behind.
    const marker = join(stateDir, 'policy-repo', 'policysync-mirror.json');
    await writeFile(marker, JSON.stringify({ version: 1, url: env.SYNC_POLICY_REPO_URL }));
    for (const { name, parentPath } of await readdir(stateDir, { recursive: true, withFileTypes: true })) {
      const file = join(parentPath, name);
      const { mode } = await lstat(file);
      await chmod(file, mode | 0o044);
    }
    assert.notDeepEqual(await openIn(stateDir), []);
    await using server = await startServer(env, { stateDir });
    await serves(server, await repo.commit({ 'c.rego': 'package c' }));
    assert.deepEqual(await openIn(stateDir), []);
  },
);

test(
  'a folder that the server makes is closed, and nothing is warned of; bundles of an HTTP server, too',
  posix,
  async () => {
    await using dir = await tempDir();
    await using bundles = await bundleHttpServer();
    await bundles.put(await bundleOf({ 'a.rego': 'package a' }));
    const { log, warned } = recorder();
    const stateDir = join(dir.path, 'made', 'state');
    const env = { SYNC_POLICY_SOURCE_TYPE: 'API', SYNC_POLICY_BUNDLE_URL: bundles.url };
    await using server = await startServer(env, { stateDir, log });
    await until(async () => (await request(`${server.url}/policy`)).status === 200, {
      withinMs: 15_000,
      what: 'the bundle',
    });
    assert.deepEqual(await openIn(join(dir.path, 'made')), []);
    assert.equal((await lstat(stateDir)).mode & 0o777, 0o700);
    assert.deepEqual(warned(), []);
  },
);

test("a client's backup is closed to others, and a folder in which others could put one is named", posix, async () => {
  await using dir = await tempDir();
  await using server = await startServer();
  const folder = join(dir.path, 'backup');
  await mkdir(folder);
  await chmod(folder, 0o777);
  const path = join(folder, 'opa.json');
  const old = `${path}.refused`;
  await writeFile(old, 'old', { mode: 0o644 });
  await using client = await startClient({
    serverUrl: server.url,
    env: {
      SYNC_OFFLINE_MODE_ENABLED: 'true',
      SYNC_STORE_BACKUP_PATH: path,
      SYNC_STORE_BACKUP_INTERVAL: '0.1',
      SYNC_POLICY_UPDATER_ENABLED: 'false',
    },
  });
  await publish(server.url, { dst_path: '/a', data: { secret: 2 } });
  await client.holds('/a', { secret: 2 });
  await until(async () => (await readdir(folder)).includes('opa.json'), { withinMs: 15_000, what: 'the backup' });
  assert.deepEqual(await openIn(folder), []);
  const warned = client.log.filter(({ level, msg }) => level === 40 && msg.includes(folder));
  assert.equal(warned.length, 1);
  assert.match(warned[0]?.msg ?? '', /^SYNC_STORE_BACKUP_PATH: the folder .* may be written to by other users/);
});
