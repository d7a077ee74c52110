import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { startFile } from '../support/command.js';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { installedPackage } from '../support/installed-package.js';
import { npmEnvironment } from '../support/npm.js';
import { freePort } from '../support/opa.js';
import { read } from '../support/repo-pages.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** What the package may take, in bytes: installed, with all that npm installs beside it, and as a file to download. */
const LIMITS = { installed: 40_000_000, tarball: 10_000_000 };
/** Longest time of one command. */
const COMMAND_MS = 5 * 60_000;
const START = { withinMs: 60_000, what: 'the program answers' };

/** Bytes that all files of a folder have, and that they take on the disk. */
async function sizeOf(folder: string): Promise<{ files: number; bytes: number; onDisk: number }> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const stats = await Promise.all(files.map((file) => stat(join(file.parentPath, file.name))));
  const total = (of: (one: (typeof stats)[number]) => number): number => stats.reduce((sum, one) => sum + of(one), 0);
  return { files: files.length, bytes: total(({ size }) => size), onDisk: total(({ blocks }) => blocks * 512) };
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

describe('the package that npm installs from its file for the whole machine, as README.md says', () => {
  const { tarball, bin } = installedPackage();
  let dir: TempDir;
  /** npm's environment, with a prefix of its own. */
  let env: NodeJS.ProcessEnv;
  let programs: string;
  let packages: string;
  let folder: string;

  before(async () => {
    dir = await tempDir();
    const [prefix, checkout] = [join(dir.path, 'machine'), join(dir.path, 'checkout')];
    env = { ...(await npmEnvironment(join(dir.path, 'npm'))), npm_config_prefix: prefix };
    [programs, packages] = [join(prefix, 'bin'), join(prefix, 'lib', 'node_modules')];
    folder = join(packages, 'policysync');
    await mkdir(checkout);
    await copyFile(tarball, join(checkout, basename(tarball)));
    const [line = ''] = /^npm install --global \S+$/m.exec(read('README.md')) ?? [];
    await sh(checkout, line);
  });

  after(() => dir[Symbol.asyncDispose]());

  /** Runs a line in the shell of a user who has that npm; answers what it prints. */
  async function sh(cwd: string, line: string): Promise<string> {
    const { stdout } = await promisify(execFile)('sh', ['-c', line], { cwd, env, timeout: COMMAND_MS });
    return stdout;
  }

  it('takes less than 40 MB, and little to download', async (t) => {
    const { files, bytes, onDisk } = await sizeOf(packages);
    const { size } = await stat(tarball);
    t.diagnostic(`installed: ${megabytes(bytes)} in ${files} files, ${megabytes(onDisk)} on the disk`);
    t.diagnostic(`tarball: ${megabytes(size)}`);
    assert(bytes > 10_000_000, 'it has what it needs');
    assert(
      bytes < LIMITS.installed && onDisk < LIMITS.installed,
      `${megabytes(bytes)}, ${megabytes(onDisk)} on the disk`,
    );
    assert(size < LIMITS.tarball, megabytes(size));
    for (const [page, pattern, measured] of [
      ['docs/how-to/deploy.md', /\| Disk \| (\S+) MB for the package;.*\| the same \1 MB/, bytes],
      ['docs/internals/first-hour.md', /\| the package \| .* \| (\S+) MB, \S+ MB installed \|/, size],
      ['docs/internals/first-hour.md', /\| the package \| .* \| \S+ MB, (\S+) MB installed \|/, bytes],
    ] as const) {
      const written = Number(pattern.exec(read(page))?.[1]);
      assert(Math.abs(written - measured / 1e6) < 1, `${page} says ${written} MB, it is ${megabytes(measured)}`);
    }
  });

  it('brings three commands and one native package along, and nothing for development', async () => {
    const others = (await readdir(join(folder, 'node_modules'))).filter((name) => !name.startsWith('.'));
    assert.deepEqual(others, ['@libsql', '@neon-rs', 'detect-libc', 'libsql']);
    assert.deepEqual(await readdir(packages), ['policysync']);
    assert.deepEqual(await readdir(programs), ['policysync', 'sync-client', 'sync-server']);
    await using version = startFile(join(programs, 'policysync'), ['--version']);
    assert.match((await version.result).stdout, /^\d+\.\d+\.\d+\n$/);
  });

  it('runs by its name with npx where it is installed, in an empty folder that stays empty', async () => {
    const empty = join(dir.path, 'empty');
    await mkdir(empty);
    assert.match(await sh(empty, 'npx --no policysync demo --help'), /demo.*--once/s);
    assert.deepEqual(await readdir(empty), []);
  });

  it('runs and sets up with npx alone: what init prints runs this package, and the files name no cache', async () => {
    const place = join(dir.path, 'a place');
    await mkdir(place);
    await copyFile(tarball, join(place, 'policysync.tgz'));
    await using repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n' });
    // Of its programs npm takes the one that is named like the package.
    const init = `npx --yes ./policysync.tgz init 'set up' --yes --repository '${repo.path}' --port ${await freePort()}`;
    const printed = await sh(place, init);
    assert.deepEqual((await readdir(place)).sort(), ['policysync.tgz', 'set up']);
    const [, check = ''] = /\n {2}(npx .* doctor server .*)\n/.exec(printed) ?? [];
    assert.equal(
      check,
      `npx --yes --package '${join(place, 'policysync.tgz')}' policysync doctor server --config policysync.yaml`,
    );
    assert.doesNotMatch(printed, /npx policysync/);
    const files = join(place, 'set up');
    assert.match(await sh(files, check), /branch master is at/);
    assert.doesNotMatch(await readFile(join(files, 'policysync.yaml'), 'utf8'), /_npx/);
  });

  for (const [uri, what, line] of [
    ['postgres://127.0.0.1:9/x', 'Postgres at 127.0.0.1:9 needs the package pg', /npm install pg@\^8\.\d+\.\d+$/m],
    [
      'redis://127.0.0.1:9/0',
      'Redis at 127.0.0.1:9 needs the package ioredis',
      /npm install ioredis@\^\d+\.\d+\.\d+$/m,
    ],
    [
      'nats://127.0.0.1:9',
      'NATS at 127.0.0.1:9 needs the packages @nats-io/transport-node and @nats-io/jetstream',
      /npm install @nats-io\/transport-node@~3\.\d+\.\d+ @nats-io\/jetstream@~3\.\d+\.\d+$/m,
    ],
  ] as const) {
    it(`a server with ${uri.split(':', 1)[0]} as backbone says at the start what to install`, async () => {
      const env = { SYNC_BROADCAST_URI: uri, SYNC_STATE_DIR: join(dir.path, 'unused') };
      await using server = startFile(join(folder, bin['sync-server']), ['run'], { ...env, SYNC_SERVER_BIND_PORT: '0' });
      const { code, stderr } = await server.result;
      assert.equal(code, 2, stderr);
      assert(stderr.includes(what), stderr);
      assert.match(stderr, line);
      assert.match(stderr, /What to do: Run the `npm install` command .*\[package_missing\]/);
    });
  }

  it('serves and decides, and names what one data source needs while the others are loaded', async () => {
    const [serverPort, clientPort, enginePort] = [await freePort(), await freePort(), await freePort()];
    const serverUrl = `http://127.0.0.1:${serverPort}`;
    const pg = { url: 'postgresql://reader@127.0.0.1:9/x', config: { fetcher: 'postgres', query: 'select 1' } };
    const entries = [
      { ...pg, topics: ['policy_data'], dst_path: '/from-postgres' },
      { url: `${serverUrl}/healthcheck`, topics: ['policy_data'], dst_path: '/from-http' },
    ];
    // What is loaded when it is needed alone: YAML, the log for people, figures of the process.
    const config = join(dir.path, 'policysync.yaml');
    await writeFile(config, `server:\n  state-dir: ${join(dir.path, 'state')}\n  log-format: pretty\n`);
    await using server = startFile(join(folder, bin['sync-server']), ['run', '--config', config], {
      SYNC_SERVER_BIND_PORT: String(serverPort),
      SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries } }),
    });
    const isUp = async (): Promise<boolean> => {
      if (server.process.exitCode !== null) assert.fail(server.stderr());
      return (await request(`${serverUrl}/healthcheck`)).status === 200;
    };
    await until(isUp, START);
    await server.says(/INFO: sync server is listening/);
    assert.match((await request(`${serverUrl}/metrics`)).text, /^process_cpu_seconds_total /m);
    await using client = startFile(join(folder, bin['sync-client']), ['run'], {
      ...{ SYNC_SERVER_URL: serverUrl, SYNC_CLIENT_API_SERVER_PORT: String(clientPort), SYNC_ENGINE: 'embedded' },
      ...{ SYNC_POLICY_STORE_URL: `http://127.0.0.1:${enginePort}`, XDG_CACHE_HOME: join(dir.path, 'cache') },
    });
    const loaded = async (): Promise<boolean> => {
      if (client.process.exitCode !== null) assert.fail(client.stderr());
      const { json } = await request(`http://127.0.0.1:${enginePort}/v1/data/from-http`);
      return field(json, 'result', 'status') === 'ok';
    };
    await until(loaded, { withinMs: 60_000, what: 'the other data source is loaded' });
    const line =
      /"error":"[^"]*127\.0\.0\.1:9[^"]*: the Postgres data source needs the package pg; install with: npm install pg@\^8[^"]*".*/;
    const found = await until(() => line.exec(client.stderr()), { withinMs: 10_000, what: 'the package is named' });
    assert.match(found[0], /"code":"package_missing"/);
    assert(!server.stderr().includes('package_missing'));
  });

  // The last of this file.
  it('leaves nothing when it is uninstalled', async () => {
    await sh(dir.path, 'npm uninstall --global policysync');
    assert.deepEqual([await readdir(programs), await readdir(packages)], [[], []]);
  });
});
