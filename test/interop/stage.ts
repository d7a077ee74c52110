import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import { isDeepStrictEqual, promisify } from 'node:util';
import { type StartedCommand, startCommand } from '../support/command.js';
import { field, postJson, request } from '../support/http.js';
import { freePort, testOpa } from '../support/opa.js';
import { until } from '../support/until.js';
import { type OpalProgram, opalPrograms, startOpal } from './opal-python.js';

/** Python programs take seconds to start, more on a busy machine. */
export const WITHIN_MS = 60_000;

/** Takes a part that ends with its owner, and answers it. */
export type Keep = <P extends AsyncDisposable>(part: P) => P;

/**
 * Programs that all tests of a file share, since they are slow to start: made before the first test, ended after the last, what
 * was kept last first. The result answers them, or skips the test where there is no Python to run OPAL.
 */
export function sharedStage<T>(
  make: (opalBin: string, keep: Keep) => Promise<T>,
): (context: TestContext) => T | undefined {
  const kept: AsyncDisposable[] = [];
  let stage: T | undefined;
  const end = async (): Promise<void> => {
    for (const part of kept.splice(0).reverse()) await part[Symbol.asyncDispose]();
  };
  before(async () => {
    const opalBin = await opalPrograms();
    if (opalBin === undefined) return;
    try {
      stage = await make(opalBin, (part) => {
        kept.push(part);
        return part;
      });
    } catch (error) {
      await end();
      throw error;
    }
  });
  after(end);
  return (context) => {
    if (stage === undefined) context.skip('python3 is not there, so OPAL cannot run');
    return stage;
  };
}

/** The module of the policy repositories here: allows users with the role. */
export function allowing(role: string): { 'app/rbac.rego': string } {
  const rule = `allow if data.users[input.user].role == "${role}"`;
  return { 'app/rbac.rego': `package app.rbac\n\nimport rego.v1\n\ndefault allow := false\n\n${rule}\n` };
}

/** A pair of keys as OPAL's documentation makes one: in one line of the environment each. */
export interface Keys {
  readonly publicKey: string;
  readonly privateKey: string;
}

/** Makes {@link Keys} in a folder. */
export async function opalKeys(folder: string): Promise<Keys> {
  const file = join(folder, 'key');
  await promisify(execFile)('ssh-keygen', ['-q', '-t', 'rsa', '-b', '2048', '-m', 'pem', '-N', '', '-f', file]);
  const privateKey = (await readFile(file, 'utf8')).replaceAll('\n', '_');
  return { privateKey, publicKey: (await readFile(`${file}.pub`, 'utf8')).trim() };
}

/** Whatever answers the REST API of OPA. */
export interface Engine {
  readonly url: string;
}

/** What an engine answers at a path below /v1/data. */
export async function data(engine: Engine, path: string, input: unknown = null): Promise<unknown> {
  return field((await postJson(`${engine.url}/v1/data${path}`, { input })).json, 'result');
}

/** Waits until an engine answers the value; a failure shows what the programs printed last. */
export async function reaches(
  engine: Engine,
  path: string,
  value: unknown,
  programs: readonly (() => string)[],
  input?: unknown,
): Promise<void> {
  let last: unknown;
  const found = async (): Promise<boolean> => {
    last = await data(engine, path, input);
    return isDeepStrictEqual(last, value);
  };
  try {
    await until(found, { withinMs: WITHIN_MS, what: `${path} is ${JSON.stringify(value)}` });
  } catch (cause) {
    const printed = programs.map((output) => output().slice(-4000)).join('\n---\n');
    throw new Error(`${path} stayed ${JSON.stringify(last)}\n${printed}`, { cause });
  }
}

/** Publishes one entry; the topic is `policy_data` where nothing else is said. `more`: other members of the update. */
export async function publish(
  serverUrl: string,
  entry: object,
  { token, more = {} }: { token?: string; more?: object } = {},
): Promise<void> {
  const update = { entries: [{ url: '', topics: ['policy_data'], ...entry }], reason: 'interop', ...more };
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await postJson(`${serverUrl}/data/config`, update, headers);
  assert.equal(answer.status, 200, answer.text);
}

/** Waits until a server answers. */
async function serverAnswers(url: string): Promise<void> {
  await until(async () => (await request(url)).status === 200, { withinMs: WITHIN_MS, what: `${url} answers` });
}

/** A server of ours or of OPAL, with all that it has printed. */
export interface RunningServer extends AsyncDisposable {
  readonly url: string;
  output(): string;
}

/** Starts our server with its state in the folder. */
export async function startOurServer(folder: string, env: Record<string, string>): Promise<RunningServer> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const command = startCommand('server', ['run'], {
    SYNC_SERVER_BIND_PORT: String(port),
    SYNC_STATE_DIR: join(folder, 'state'),
    ...env,
  });
  return answering({ url, output: command.stderr, [Symbol.asyncDispose]: command[Symbol.asyncDispose] });
}

/** Starts OPAL's server, which follows a repository closely, with all its files in the folder. */
export async function startOpalServer(
  opalBin: string,
  folder: string,
  env: Record<string, string>,
): Promise<RunningServer> {
  const port = await freePort();
  const server = startOpal(opalBin, 'opal-server', folder, {
    OPAL_SERVER_BIND_PORT: String(port),
    OPAL_POLICY_REPO_POLLING_INTERVAL: '1',
    OPAL_POLICY_REPO_CLONE_PATH: join(folder, 'clone'),
    OPAL_LEADER_LOCK_FILE_PATH: join(folder, 'leader.lock'),
    OPAL_STATISTICS_ENABLED: 'true',
    ...env,
  });
  return answering({ ...server, url: `http://127.0.0.1:${port}` });
}

async function answering(server: RunningServer): Promise<RunningServer> {
  try {
    await serverAnswers(server.url);
    return server;
  } catch (cause) {
    await server[Symbol.asyncDispose]();
    throw new Error(server.output().slice(-4000), { cause });
  }
}

/** Starts OPAL's client with an OPA of the test's; `apiUrl` is where its own API will answer. */
export async function startOpalClient(
  opalBin: string,
  folder: string,
  { serverUrl, engine, env = {} }: { serverUrl: string; engine: Engine; env?: Record<string, string> },
): Promise<OpalProgram & { apiUrl: string }> {
  const port = await freePort();
  const program = startOpal(opalBin, 'opal-client', folder, {
    OPAL_SERVER_URL: serverUrl,
    OPAL_CLIENT_API_SERVER_PORT: String(port),
    OPAL_INLINE_OPA_ENABLED: 'false',
    OPAL_POLICY_STORE_URL: engine.url,
    OPAL_DATA_TOPICS: 'policy_data',
    OPAL_STATISTICS_ENABLED: 'true',
    OPAL_SHOULD_REPORT_ON_DATA_UPDATES: 'true',
    ...env,
  });
  return { ...program, apiUrl: `http://127.0.0.1:${port}` };
}

/** Our client as a program, with its inline OPA. */
export interface OurClient extends AsyncDisposable {
  readonly apiUrl: string;
  readonly engine: Engine;
  readonly command: StartedCommand;
}

/** Starts our client. */
export async function startOurClient(serverUrl: string, env: Record<string, string> = {}): Promise<OurClient> {
  const [apiPort, enginePort] = [await freePort(), await freePort()];
  const engine = { url: `http://127.0.0.1:${enginePort}` };
  const command = startCommand('client', ['run'], {
    SYNC_SERVER_URL: serverUrl,
    SYNC_CLIENT_API_SERVER_PORT: String(apiPort),
    SYNC_POLICY_STORE_URL: engine.url,
    SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
    ...env,
  });
  return {
    apiUrl: `http://127.0.0.1:${apiPort}`,
    engine,
    command,
    [Symbol.asyncDispose]: async () => {
      // In order, so that the inline engine ends too.
      command.process.kill('SIGTERM');
      await command.result;
    },
  };
}
