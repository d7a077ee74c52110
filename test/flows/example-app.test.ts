import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { request } from '../support/http.js';
import { installedPackage } from '../support/installed-package.js';
import { freePort, testOpa } from '../support/opa.js';
import { repoRoot } from '../support/repo.js';
import { following } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const EXAMPLE = join(repoRoot(), 'examples', 'app');
const WITHIN = { withinMs: 60_000 };

/** Starts the example as `npm start` does, in a folder of its own with the package as it ships. */
async function startApp(dir: TempDir, env: Record<string, string>) {
  const folder = join(dir.path, 'app');
  await cp(EXAMPLE, folder, { recursive: true, filter: (path) => !path.endsWith('node_modules') });
  const modules = join(folder, 'node_modules');
  await mkdir(modules);
  await symlink(join(installedPackage().project, 'node_modules', 'policysync'), join(modules, 'policysync'));
  await symlink(join(repoRoot(), 'node_modules', 'fastify'), join(modules, 'fastify'));
  const { scripts } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
    scripts: { start: string };
  };
  const [node, ...args] = scripts.start.split(' ');
  assert.equal(node, 'node');
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env: {
      PATH,
      HOME,
      TMPDIR: dir.path,
      PORT: '0',
      SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const closed = once(child, 'close');
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  }
  const find = async (what: string, pattern: RegExp): Promise<string> => {
    let found: string | undefined;
    await until(
      () => {
        if (child.exitCode !== null) throw new Error(`it ended: ${printed}`);
        found = pattern.exec(printed)?.[1];
        return found !== undefined;
      },
      { ...WITHIN, what },
    );
    return found ?? '';
  };
  const url = await find('the application listens', /listening at (\S+);/).catch((cause: unknown) => {
    child.kill('SIGKILL');
    throw new Error(printed, { cause });
  });
  const ask = (path: string, user?: string) =>
    request(`${url}${path}`, {
      headers: user === undefined ? {} : { 'x-user': user },
      // The first answer waits for the engine.
      signal: AbortSignal.timeout(WITHIN.withinMs),
    });
  return {
    ask,
    find,
    stop: async () => {
      child.kill('SIGTERM');
      await closed;
      return { code: child.exitCode, printed };
    },
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
      await closed;
    },
  };
}

/** How it is used with the engine that it has without settings, and with another: what decides is all that differs. */
describe('the example application', () => {
  it('runs alone, and decides about requests and documents (embedded)', async () => {
    await using dir = await tempDir();
    await using app = await startApp(dir, {});
    assert.deepEqual((await app.ask('/documents', 'ann')).json, ['handbook', 'plans']);
    assert.deepEqual((await app.ask('/documents', 'olga')).json, ['handbook', 'plans', 'salaries']);
    assert.equal((await app.ask('/documents')).status, 403);
    assert.equal((await app.ask('/documents/plans', 'ann')).status, 200);
    assert.equal((await app.ask('/documents/handbook')).status, 200);
    const denied = await app.ask('/documents/plans', 'bob');
    assert.equal(denied.status, 403);
    assert.equal((denied.json as { decision_id: string }).decision_id, denied.headers.get('x-decision-id'));
    assert.equal((await app.ask('/documents/none', 'olga')).status, 404);
    assert.equal((await app.ask('/healthz')).status, 200);
    const { code, printed } = await app.stop();
    assert.equal(code, 0, printed);
  });

  it('follows a server that is there, and its changes (inline)', async () => {
    await using dir = await tempDir();
    await using repo = await gitRepo();
    await cp(join(EXAMPLE, 'policy'), repo.path, { recursive: true });
    await repo.commit({});
    await using server = await startServer(following(repo));
    await using app = await startApp(dir, {
      SYNC_SERVER_URL: server.url,
      SYNC_ENGINE: 'inline',
      SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
    });
    assert.deepEqual((await app.ask('/documents', 'olga')).json, ['handbook', 'plans', 'salaries']);
    assert.equal((await app.ask('/documents')).status, 403);
    assert.equal((await app.ask('/documents/plans', 'ann')).status, 200);
    assert.equal((await app.ask('/documents/plans', 'bob')).status, 403);
    const file = join(repo.path, 'data.json');
    await writeFile(file, (await readFile(file, 'utf8')).replace('"ann" }', '"bob" }'));
    await repo.commit({});
    await until(async () => (await app.ask('/documents/plans', 'bob')).status === 200, {
      ...WITHIN,
      what: 'bob owns it',
    });
    await app.find('the application hears of it', /(who may read what has changed)/);
    const { code, printed } = await app.stop();
    assert.equal(code, 0, printed);
  });
});
