import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { before, type TestContext, test } from 'node:test';
import { type StartedCommand, startCommand } from '../support/command.js';
import { freePort, startOpa, type TestOpa, testOpa } from '../support/opa.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';
import { type OpalProgram, opalPrograms, startOpal } from './opal-python.js';

/** Both ways with OPAL 0.9.9: its client follows our server, our client follows its server, each with a real OPA. */

/** Python programs take seconds to start, more on a busy machine. */
const WITHIN_MS = 60_000;
const MISSING = 'python3 is not there, so OPAL cannot run';

let bin: string | undefined;
before(async () => {
  bin = await opalPrograms();
});

/** A policy repository whose one module allows a role. */
class PolicyRepo {
  readonly path: string;

  constructor(folder: string) {
    this.path = join(folder, 'policy');
    mkdirSync(join(this.path, 'app'), { recursive: true });
    this.#git('init', '--quiet', '--initial-branch=master');
    this.allow('admin');
  }

  /** Commits a policy that allows users with the role. */
  allow(role: string): void {
    writeFileSync(
      join(this.path, 'app', 'rbac.rego'),
      `package app.rbac\n\nimport rego.v1\n\ndefault allow := false\n\nallow if data.users[input.user].role == "${role}"\n`,
    );
    this.#git('add', '.');
    this.#git('-c', 'user.name=t', '-c', 'user.email=t@example.org', 'commit', '--quiet', '-m', `allow ${role}`);
  }

  #git(...args: string[]): void {
    execFileSync('git', ['-C', this.path, ...args]);
  }
}

/** A data source that answers every path with the same document. */
async function dataSource(document: unknown): Promise<{ url: string } & AsyncDisposable> {
  const http = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(document));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/base`,
    async [Symbol.asyncDispose]() {
      http.close();
      http.closeAllConnections();
    },
  };
}

/** What OPA answers at a path below /v1/data. */
async function data(opa: { url: string }, path: string, input?: unknown): Promise<unknown> {
  const response = await fetch(`${opa.url}/v1/data${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input: input ?? null }),
  });
  return ((await response.json()) as { result?: unknown }).result;
}

/** Waits until OPA answers the value; a failure shows what the programs printed last. */
async function reaches(
  opa: { url: string },
  path: string,
  value: unknown,
  programs: readonly (() => string)[],
  input?: unknown,
): Promise<void> {
  let last: unknown;
  try {
    await until(
      async () => {
        last = await data(opa, path, input);
        return JSON.stringify(last) === JSON.stringify(value);
      },
      { withinMs: WITHIN_MS, what: `${path} is ${JSON.stringify(value)}` },
    );
  } catch (cause) {
    const printed = programs.map((output) => output().slice(-4000)).join('\n---\n');
    throw new Error(`${path} stayed ${JSON.stringify(last)}\n${printed}`, { cause });
  }
}

async function publish(serverUrl: string, entry: object): Promise<void> {
  const response = await fetch(`${serverUrl}/data/config`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ entries: [{ url: '', topics: ['policy_data'], ...entry }], reason: 'interop' }),
  });
  assert.equal(response.status, 200, await response.text());
}

async function serverAnswers(url: string): Promise<void> {
  await until(async () => (await fetch(url)).ok, { withinMs: WITHIN_MS, what: `${url} answers` });
}

interface OurServer {
  url: string;
  command: StartedCommand;
}

async function startOurServer(folder: TempDir, env: Record<string, string>): Promise<OurServer> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const command = startCommand('server', ['run'], {
    SYNC_SERVER_BIND_PORT: String(port),
    SYNC_STATE_DIR: join(folder.path, 'state'),
    ...env,
  });
  await serverAnswers(url);
  return { url, command };
}

async function startOpalClient(
  folder: TempDir,
  opalBin: string,
  serverUrl: string,
  opa: TestOpa,
): Promise<OpalProgram> {
  return startOpal(opalBin, 'opal-client', folder.path, {
    OPAL_SERVER_URL: serverUrl,
    OPAL_CLIENT_API_SERVER_PORT: String(await freePort()),
    OPAL_INLINE_OPA_ENABLED: 'false',
    OPAL_POLICY_STORE_URL: opa.url,
    OPAL_DATA_TOPICS: 'policy_data',
    OPAL_STATISTICS_ENABLED: 'true',
    OPAL_SHOULD_REPORT_ON_DATA_UPDATES: 'true',
  });
}

async function opalBinOr(context: TestContext): Promise<string | undefined> {
  if (bin === undefined) context.skip(MISSING);
  return bin;
}

test('a Python OPAL client gets base data, updates, and what it missed while it was away, from our server', async (context) => {
  const opalBin = await opalBinOr(context);
  if (opalBin === undefined) return;
  await using folder = await tempDir();
  await using source = await dataSource({ from: 'base' });
  await using opa = await startOpa();
  const server = await startOurServer(folder, {
    SYNC_DATA_CONFIG_SOURCES: JSON.stringify({
      config: { entries: [{ url: source.url, topics: ['policy_data'], dst_path: '/base' }] },
    }),
  });
  await using command = server.command;
  const client = await startOpalClient(folder, opalBin, server.url, opa);
  const programs = [client.output, command.stderr];
  await using _client = client;
  await reaches(opa, '/base', { from: 'base' }, programs);
  await publish(server.url, { dst_path: '/users', data: { alice: { role: 'viewer' } } });
  await reaches(opa, '/users', { alice: { role: 'viewer' } }, programs);
  await publish(server.url, {
    dst_path: '/users/alice',
    save_method: 'PATCH',
    data: [{ op: 'replace', path: '/role', value: 'admin' }],
  });
  await reaches(opa, '/users', { alice: { role: 'admin' } }, programs);
  await publish(server.url, { dst_path: '/remote', url: source.url });
  await reaches(opa, '/remote', { from: 'base' }, programs);
  await publish(server.url, { dst_path: '/users/alice', save_method: 'DELETE' });
  await reaches(opa, '/users', {}, programs);

  await client.stop();
  await publish(server.url, { dst_path: '/missed', data: { n: 1 } });
  await using again = await startOpalClient(folder, opalBin, server.url, opa);
  await reaches(opa, '/missed', { n: 1 }, [again.output, command.stderr]);
});

test('a Python OPAL client gets policy and pushed commits from our server', async (context) => {
  const opalBin = await opalBinOr(context);
  if (opalBin === undefined) return;
  await using folder = await tempDir();
  const repo = new PolicyRepo(folder.path);
  await using opa = await startOpa();
  const server = await startOurServer(folder, {
    SYNC_POLICY_REPO_URL: `file://${repo.path}`,
    SYNC_POLICY_REPO_MAIN_BRANCH: 'master',
    SYNC_POLICY_REPO_POLLING_INTERVAL: '0.5',
  });
  await using command = server.command;
  await using client = await startOpalClient(folder, opalBin, server.url, opa);
  const programs = [client.output, command.stderr];
  await reaches(opa, '/app/rbac/allow', false, programs, { user: 'alice' });
  await publish(server.url, { dst_path: '/users', data: { alice: { role: 'viewer' } } });
  await reaches(opa, '/users', { alice: { role: 'viewer' } }, programs);
  repo.allow('viewer');
  await reaches(opa, '/app/rbac/allow', true, programs, { user: 'alice' });
});

test('our client gets base data, updates, policy and pushed commits from a Python OPAL server', async (context) => {
  const opalBin = await opalBinOr(context);
  if (opalBin === undefined) return;
  await using folder = await tempDir();
  const repo = new PolicyRepo(folder.path);
  await using source = await dataSource({ from: 'base' });
  const [serverPort, enginePort] = [await freePort(), await freePort()];
  const serverUrl = `http://127.0.0.1:${serverPort}`;
  await using server = startOpal(opalBin, 'opal-server', folder.path, {
    OPAL_SERVER_BIND_PORT: String(serverPort),
    OPAL_POLICY_REPO_URL: `file://${repo.path}`,
    OPAL_POLICY_REPO_POLLING_INTERVAL: '1',
    OPAL_POLICY_REPO_CLONE_PATH: join(folder.path, 'clone'),
    OPAL_LEADER_LOCK_FILE_PATH: join(folder.path, 'leader.lock'),
    OPAL_STATISTICS_ENABLED: 'true',
    OPAL_DATA_CONFIG_SOURCES: JSON.stringify({
      config: { entries: [{ url: source.url, topics: ['policy_data'], dst_path: '/base' }] },
    }),
  });
  await serverAnswers(serverUrl);
  const engine = { url: `http://127.0.0.1:${enginePort}` };
  await using client = startCommand('client', ['run'], {
    SYNC_SERVER_URL: serverUrl,
    SYNC_CLIENT_API_SERVER_PORT: '0',
    SYNC_POLICY_STORE_URL: engine.url,
    SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
  });
  const programs = [client.stderr, server.output];
  await reaches(engine, '/base', { from: 'base' }, programs);
  await reaches(engine, '/app/rbac/allow', false, programs, { user: 'alice' });
  await publish(serverUrl, { dst_path: '/users', data: { alice: { role: 'viewer' } } });
  await reaches(engine, '/users', { alice: { role: 'viewer' } }, programs);
  repo.allow('viewer');
  await reaches(engine, '/app/rbac/allow', true, programs, { user: 'alice' });
  assert.deepEqual(await data(engine, '/base'), { from: 'base' });
});
