import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { runCommand, type StartedCommand, startCommand } from '../support/command.js';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { freePort, testOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { FAST, following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const LISTENS = /"url":"(http:[^"]+)".*listening/;

/** Settings of a client program with its own engine. */
async function settings(serverUrl: string): Promise<Record<string, string> & { SYNC_POLICY_STORE_URL: string }> {
  return {
    ...FAST,
    SYNC_SERVER_URL: serverUrl,
    SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
    SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
    SYNC_CLIENT_API_SERVER_PORT: '0',
  };
}

async function healthy(client: StartedCommand): Promise<string> {
  const [, url = ''] = await client.says(LISTENS);
  const look = async (): Promise<boolean> => (await request(`${url}/healthy`)).status === 200;
  await until(look, { withinMs: 15_000, what: 'the client is healthy' }).catch((cause: unknown) => {
    throw new Error(client.stderr().slice(-4000), { cause });
  });
  return url;
}

/** Process id of the client's engine. */
async function enginePid(client: StartedCommand): Promise<number> {
  const [, pid] = await client.says(/"pid":(\d+),.*engine started/);
  return Number(pid);
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false; // there is no such process
  }
}

async function gone(pid: number): Promise<void> {
  await until(() => !isRunning(pid), { withinMs: 20_000, what: `process ${pid} is gone` });
}

test('says at its start what it runs with, one line each; a stop ends all, also while the server hangs and the engine starts', async () => {
  await using silent = await listening(createServer(() => undefined));
  const env = await settings(`http://ann:hush@127.0.0.1:${silent.port}/?key=hush`);
  await using client = startCommand('client', ['run'], {
    ...env,
    SYNC_DATA_TOPICS: 'acme,shop',
    SYNC_CLIENT_TOKEN: 'hush',
  });
  await client.says(LISTENS);
  client.process.kill('SIGTERM');
  assert.equal((await client.result).code, 0, client.stderr());
  await assert.rejects(request(env.SYNC_POLICY_STORE_URL));
  const said = client
    .stderr()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => String(field(JSON.parse(line), 'msg')));
  const patterns = [
    /^version: \d+\.\d+\.\d+, Node \d+\.\d+\.\d+, client \S+$/,
    new RegExp(`^server: http://\\S*127\\.0\\.0\\.1:${silent.port}/\\S*, the token of SYNC_CLIENT_TOKEN is sent$`),
    /^data: topics acme, shop$/,
    /^policy: directories \.$/,
    /^authentication of the client API: off/,
    /^engine: inline OPA at http:\/\/127\.0\.0\.1:\d+\//,
    /^sync client is listening$/,
  ];
  const places = patterns.map((pattern) => said.findIndex((line) => pattern.test(line)));
  assert.deepEqual(
    places,
    places.toSorted((a, b) => a - b),
    said.join('\n'),
  );
  assert(!places.includes(-1), `${places}: ${said.join('\n')}`);
  assert.doesNotMatch(client.stderr(), /hush/);
});

test('names every setting that is not valid, and ends with 2', async () => {
  const { code, stderr } = await runHere('client', ['run', '--fetch-per-host', 'many'], {
    SYNC_SERVER_URL: 'not a url',
    OPAL_LOG_LEVEL: 'loud',
    SYNC_CLIENT_API_SERVER_PORT: '70000',
    SYNC_INLINE_ENGINE_CONFIG: '{"adress":"x"}',
    SYNC_INLINE_ENGINE_LOG_FORMAT: 'some',
    SYNC_HTTP_FETCHER_TIMEOUT: '-1',
    SYNC_POLICY_UPDATER_ENABLED: 'perhaps',
  });
  assert.equal(code, 2, stderr);
  for (const name of [
    '--fetch-per-host',
    'SYNC_SERVER_URL',
    'OPAL_LOG_LEVEL',
    'SYNC_CLIENT_API_SERVER_PORT',
    'SYNC_INLINE_ENGINE_CONFIG',
    'SYNC_INLINE_ENGINE_LOG_FORMAT',
    'SYNC_HTTP_FETCHER_TIMEOUT',
    'SYNC_POLICY_UPDATER_ENABLED',
  ]) {
    assert(stderr.includes(`\n  ${name} `), `${name} is named in\n${stderr}`);
  }
  assert.doesNotMatch(stderr, /\n {4}at /, 'no stack');
});

test('an address of its engine in use is a sentence that names it, and ends with 1', async () => {
  await using other = await listening(createServer());
  const taken = { ...(await settings('http://127.0.0.1:1')), SYNC_POLICY_STORE_URL: other.url };
  const { code, stderr } = await runCommand('client', ['run'], taken);
  assert.equal(code, 1, stderr);
  assert.match(stderr, new RegExp(`\\npolicysync: the engine cannot listen at 127\\.0\\.0\\.1:${other.port}`));
  assert.doesNotMatch(stderr, /\n {4}at /, 'no stack');
});

test('what only other settings mend ends the client with 2, also where it is found after the start began', async () => {
  const base = await settings('http://127.0.0.1:1');
  for (const [env, message] of [
    [{ SYNC_CLIENT_API_SERVER_HOST: '192.0.2.1' }, /cannot listen on 192\.0\.2\.1:0: .*EADDRNOTAVAIL/],
    [
      { SYNC_INLINE_ENGINE_CONFIG: '{"log_level":"debug","files":["/nonexistent.json"]}' },
      /policysync: the engine did not start: .*\/nonexistent\.json/,
    ],
  ] as const) {
    const { code, stderr } = await runCommand('client', ['run'], { ...base, ...env });
    assert.equal(code, 2, stderr);
    assert.match(stderr, message);
    assert.match(stderr, /\nWhat to do: .* \[(listen_failed|engine_start_failed)\]\n$/);
    assert.doesNotMatch(stderr, /\n {4}at /, 'no stack');
  }
});

test('a file or a key that a setting names and that cannot be used is an error of the configuration', async () => {
  await using folder = await tempDir();
  const noOpa = `${folder.path}/opa`;
  for (const [name, value, message] of [
    [
      'SYNC_INLINE_ENGINE_EXEC_PATH',
      noOpa,
      new RegExp(`SYNC_INLINE_ENGINE_EXEC_PATH: ${noOpa} does not exist\\. Set it to an OPA executable`),
    ],
    ['SYNC_FETCH_PROVIDER_MODULES', `${folder.path}/none.mjs`, /SYNC_FETCH_PROVIDER_MODULES: the module .*none\.mjs/],
    ['SYNC_CLIENT_API_TLS_CERT_FILE', `${folder.path}/none.pem`, /SYNC_CLIENT_API_TLS_CERT_FILE/],
    ['SYNC_AUTH_PUBLIC_KEY', 'no key', /SYNC_AUTH_PUBLIC_KEY/],
  ] as const) {
    const starting = startClient({ serverUrl: 'http://127.0.0.1:1', env: { [name]: value } });
    await assert.rejects(starting, { code: 'config_invalid', message });
  }
});

test('a folder for temporary files that cannot be used is named', async () => {
  const { code, stderr } = await runCommand('client', ['run'], {
    ...(await settings('http://127.0.0.1:1')),
    TMPDIR: '/dev/null',
  });
  assert.equal(code, 1, stderr);
  assert.match(
    stderr,
    /policysync: the folder \/dev\/null cannot be used for temporary files.*\nWhat to do: .*\[spool_unwritable\]\n$/,
  );
});

test('SIGTERM and SIGINT end the client with 0, and its engine with it', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
  await using server = await startServer(following(repo));
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const env = await settings(server.url);
    await using client = startCommand('client', ['run'], env);
    await healthy(client);
    const pid = await enginePid(client);
    assert(isRunning(pid));
    client.process.kill(signal);
    assert.equal((await client.result).code, 0, client.stderr());
    assert(!isRunning(pid), 'the engine is gone when the client is');
    await assert.rejects(request(env.SYNC_POLICY_STORE_URL));
  }
});

test('a client that was killed leaves no engine that keeps the next one from its port', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
  await using server = await startServer(following(repo));
  await publish(server.url, { dst_path: '/n', data: 1 });
  // What a killed program leaves in its temporary folder goes with this one.
  await using folder = await tempDir();
  const env = await settings(server.url);
  await using first = startCommand('client', ['run'], { ...env, TMPDIR: folder.path });
  await healthy(first);
  const orphan = await enginePid(first);
  first.process.kill('SIGKILL');

  // In this process it comes at once: the engine of the first has not yet found out that it is alone.
  const enginePort = Number(new URL(env.SYNC_POLICY_STORE_URL).port);
  await using second = await startClient({ serverUrl: server.url, enginePort });
  await second.healthy();
  assert.notEqual(second.enginePid(), orphan);
  await second.holds('/n', 1);
  await gone(orphan);
});
