import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { pino } from 'pino';
import { ERROR_CODES, type ErrorCode } from '../../src/lib/errors.js';
import { bearer, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { makeAuthority, type TestAuthority } from '../support/certificates.js';
import { type CommandResult, runCommand, type StartedCommand, startCommand } from '../support/command.js';
import { field, parsed, request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { freePort, testOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { FAST, type LogLine, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** What these clients say is not about their engine. */
const NO_ENGINE = 'http://127.0.0.1:1';
const CA = /SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE with SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED=true/;

function publish(env: Record<string, string>, ...args: string[]): Promise<CommandResult> {
  return runHere('policysync', ['publish', '--data', '1', '--dst-path', '/a', ...args], env);
}

/** Standard error ends with two lines: what is wrong, and the remedy with the code of docs/reference/errors.md. */
function assertFailure({ code, stderr }: CommandResult, error: ErrorCode, message: RegExp, exitCode = 1): void {
  const [what = '', remedy = ''] = stderr.trimEnd().split('\n').slice(-2);
  assert.equal(code, exitCode, stderr);
  assert.match(what, message);
  assert.doesNotMatch(stderr, /\n {4}at /, 'no stack');
  assert.equal(remedy, `What to do: ${ERROR_CODES[error].remedy} [${error}]`);
}

/** The fields of a log line of level warn or above that a running program writes. */
async function logged(program: StartedCommand, message: string): Promise<Record<string, unknown>> {
  const find = (): unknown =>
    program
      .stderr()
      .split('\n')
      .filter((line) => line.includes(message))
      .map(parsed)
      .find((line) => ['warn', 'error'].includes(String(field(line, 'level'))));
  const line = await until(find, { withinMs: 20_000, what: `it logs "${message}"` }).catch((cause: unknown) => {
    throw new Error(program.stderr().slice(-4000), { cause });
  });
  return line as Record<string, unknown>;
}

/** The line in which a client in this process says that it has no server. */
function notConnected(client: StartedClient, level: 'info' | 'warn'): Promise<LogLine> {
  const find = (): LogLine | undefined =>
    client.log.find((line) => line.msg === 'not connected' && line.level === pino.levels.values[level]);
  return until(find, { withinMs: 20_000, what: `it logs at ${level} that it is not connected` });
}

function assertLine(line: Readonly<Record<string, unknown>>, error: ErrorCode, text: RegExp): void {
  assert.deepEqual([line.code, line.remedy], [error, ERROR_CODES[error].remedy]);
  assert.match(String(line.error), text);
}

async function clientEnv(serverUrl: string, more: Record<string, string> = {}): Promise<Record<string, string>> {
  return {
    ...FAST,
    SYNC_SERVER_URL: serverUrl,
    SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
    SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
    SYNC_CLIENT_API_SERVER_PORT: '0',
    ...more,
  };
}

describe('a token', () => {
  let server: StartedServer;
  before(async () => {
    server = await startServer(withKeys());
  });
  after(() => server[Symbol.asyncDispose]());

  it('that is not accepted, or missing: the reason of the server, and the setting', async () => {
    const env = { SYNC_SERVER_URL: server.url };
    assert.match(
      ERROR_CODES.token_refused.remedy,
      /`policysync token --type <type> --out <file>`.*--token-file.*SYNC_CLIENT_TOKEN/,
    );
    const wrong = await publish({ ...env, SYNC_CLIENT_TOKEN: 'not.a.token' });
    assertFailure(
      wrong,
      'token_refused',
      /^policysync: not published: what was given is not a token .*answered 401: Could not decode/,
    );
    const none = await runHere('policysync', ['status'], env);
    assertFailure(none, 'token_refused', /answered 401: access token was not provided \(no token was sent\)$/);
    const kind = await publish({ ...env, SYNC_CLIENT_TOKEN: await tokenOf(server.url, { type: 'listener' }) });
    assertFailure(
      kind,
      'token_refused',
      /the token of SYNC_CLIENT_TOKEN is of type listener, and this needs one of type datasource$/,
    );
  });

  it('that lacks a topic: the topic', async () => {
    const token = await tokenOf(server.url, { type: 'datasource', claims: { permitted_topics: ['shop'] } });
    const env = { SYNC_SERVER_URL: server.url, SYNC_CLIENT_TOKEN: token };
    assertFailure(await publish(env, '-t', 'acme', '-t', 'shop'), 'topic_not_permitted', /'acme'/);
    const { status } = await request(`${server.url}/data/config`, { headers: bearer(token) });
    assert.notEqual(status, 500);
  });

  it('that is to be issued with another master token: the setting of the server', async () => {
    const args = ['token', `${MASTER_TOKEN}-`, '--server-url', server.url];
    assertFailure(
      await runHere('policysync', args),
      'master_token_refused',
      /no token: the master token is not that of the server \(the server answered 401/,
    );
    assert.match(ERROR_CODES.master_token_refused.remedy, /SYNC_AUTH_MASTER_TOKEN/);
  });

  it('of a client that runs: the log says it, and so does the status; it keeps trying', async () => {
    const env = { SYNC_CLIENT_TOKEN: 'no.to.ken' };
    await using client = await startClient({ serverUrl: server.url, engineUrl: NO_ENGINE, env });
    assertLine(await notConnected(client, 'warn'), 'token_refused', /refused the connection with 401: Could not/);
    const status = await runHere('policysync', ['status', 'client', '--client-url', client.url, '--fail-on', 'away']);
    assert.equal(status.code, 5);
    assert.match(
      status.stdout,
      /^Server +not connected .*401: Could not decode access token\n +What to do: Give a token of the type .*\[token_refused\]$/m,
    );
  });
});

describe('TLS', () => {
  let authority: TestAuthority;
  let server: StartedServer;
  before(async () => {
    authority = await makeAuthority('nobody knows it');
    const { cert, key } = await authority.issue('server');
    server = await startServer({ SYNC_SERVER_TLS_CERT_FILE: cert, SYNC_SERVER_TLS_KEY_FILE: key });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    await authority[Symbol.asyncDispose]();
  });

  it('with a certificate that is not trusted: the setting that names its authority', async () => {
    assertFailure(await publish({ SYNC_SERVER_URL: server.url }), 'tls_failed', CA);
    assertFailure(await runHere('policysync', ['status', '--server-url', server.url]), 'tls_failed', CA);
    await using client = await startClient({ serverUrl: server.url, engineUrl: NO_ENGINE });
    assertLine(await notConnected(client, 'warn'), 'tls_failed', CA);
  });

  it('of a repository that git does not trust: what git takes the authority from', async () => {
    const lines: LogLine[] = [];
    const log = pino({ level: 'warn' }, { write: (text) => void lines.push(JSON.parse(text) as LogLine) });
    await using _ = await startServer({ SYNC_POLICY_REPO_URL: `${server.url}/policies.git` }, { log });
    const found = (): LogLine | undefined => lines.find(({ msg }) => msg.includes('policy source: '));
    const line = await until(found, { withinMs: 20_000, what: 'it logs what is wrong with its policy source' });
    assert.deepEqual([line.code, line.remedy], ['git_failed', ERROR_CODES.git_failed.remedy]);
    assert.match(String(line.msg), /certificate.*GIT_SSL_CAINFO/);
  });

  it('with a server that does not speak it', async () => {
    await using plain = await startServer();
    const url = plain.url.replace('http:', 'https:');
    assertFailure(
      await publish({ SYNC_SERVER_URL: url }),
      'tls_mismatch',
      /does not speak TLS there \(http:\/\/ may be meant\): [a-z ]+$/,
    );
  });
});

it('a port in use: the address, for both programs', async () => {
  await using taken = await listening(createServer());
  const message = new RegExp(`cannot listen on 127\\.0\\.0\\.1:${taken.port}: listen EADDRINUSE`);
  await using folder = await tempDir();
  const server = { SYNC_SERVER_BIND_PORT: String(taken.port), SYNC_STATE_DIR: folder.path };
  assertFailure(await runCommand('server', ['run'], server), 'listen_failed', message);
  const client = await clientEnv('http://127.0.0.1:1', { SYNC_CLIENT_API_SERVER_PORT: String(taken.port) });
  assertFailure(await runCommand('client', ['run'], client), 'listen_failed', message);
});

it('a state folder that cannot be made: the folder, and the exit code of what a person mends', async () => {
  await using folder = await tempDir();
  const file = join(folder.path, 'file');
  await writeFile(file, '');
  for (const [state, why] of [
    [join(file, 'state'), /the state folder \S+file\/state cannot be used: a part of its path is no folder/],
    ...(process.platform === 'linux'
      ? ([['/proc/state', /the state folder \/proc\/state cannot be used: no folder can be made in \/proc/]] as const)
      : []),
  ] as const) {
    const ended = await runCommand('server', ['run', '--server-bind-port', '0'], { SYNC_STATE_DIR: state });
    assertFailure(ended, 'state_dir_unusable', why, 2);
  }
});

it('inline data that no client can write: each field, before anything starts', async () => {
  const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  const entries = [
    `{"url":"inline:","dst_path":"${'/a'.repeat(30)}","data":${deep(9_980)}}`,
    '{"url":"inline:","dst_path":"/","data":[1]}',
    '{"url":"inline:","dst_path":"/c","save_method":"PATCH","data":[{"op":"add","path":"x","value":1}]}',
    '{"url":"","dst_path":"/d"}',
    '{"url":"http://a/","dst_path":"/f","topics":["a",""]}',
    `{"url":"inline:","dst_path":"/e","data":${deep(9_000)}}`,
  ];
  const env = { SYNC_DATA_CONFIG_SOURCES: `{"config":{"entries":[${entries.join()}]}}` };
  const problem =
    /SYNC_DATA_CONFIG_SOURCES: config\.entries\.0\.data .*levels.*; config\.entries\.1\.data must be an object where .*; config\.entries\.2\.data\.0\.path is not a JSON patch .*; config\.entries\.3\.url must be an absolute URL.*; config\.entries\.4\.topics\.1 must not be empty/;
  for (const name of ['SYNC_DATA_CONFIG_SOURCES', 'OPAL_DATA_CONFIG_SOURCES']) {
    const ended = await runCommand('server', ['run', '--server-bind-port', '0'], {
      [name]: env.SYNC_DATA_CONFIG_SOURCES,
    });
    assertFailure(ended, 'config_invalid', problem, 2);
    assert.doesNotMatch(ended.stderr, /entries\.5/);
  }
  const doctor = await runHere('policysync', ['doctor', 'server', '--json', '--server-bind-port', '0'], env);
  assert.match(doctor.stdout, problem);
});

it('a misspelt variable: the setting that is meant, before anything starts', async () => {
  const env = { SYNC_POLICY_REPO_ULR: 'https://git.example/p.git', SYNC_SERVER_PORT: 'tcp://10.0.0.1:7002' };
  for (const [program, args] of [
    ['server', ['run']],
    ['client', ['run']],
    ['policysync', ['status']],
    ['policysync', ['config', 'print']],
  ] as const) {
    const ended = await runHere(program, args, env);
    const message = /there is no setting SYNC_POLICY_REPO_ULR: did you mean SYNC_POLICY_REPO_URL\?$/;
    assertFailure(ended, 'config_invalid', message, 2);
  }
});

it('a refused connection: who does not answer, and which setting says where it is', async () => {
  const nobody = await listening(createServer());
  await nobody[Symbol.asyncDispose]();
  const refused = new RegExp(`no answer from http://127\\.0\\.0\\.1:${nobody.port}\\S*: .*ECONNREFUSED`);
  assertFailure(await publish({ SYNC_SERVER_URL: nobody.url }), 'server_unreachable', refused);
  assert.match(ERROR_CODES.server_unreachable.remedy, /SYNC_SERVER_URL, `--server-url`, or `--against` of `check`/);
  const status = await runHere('policysync', ['status', 'client', '--client-url', nobody.url]);
  assertFailure(status, 'client_unreachable', refused);
  await using server = await startServer();
  const wrongPlace = await runHere('policysync', ['status', 'client', '--client-url', `${server.url}/no`]);
  assertFailure(
    wrongPlace,
    'client_unreachable',
    /answered 404: the sync client has nothing there: .* a path too much$/,
  );
  const wrongPath = await publish({ SYNC_SERVER_URL: `${server.url}/no` });
  assertFailure(
    wrongPath,
    'server_unreachable',
    /\/no\/data\/config answered 404: the sync server has nothing there: .* a path too much/,
  );
  await using client = await startClient({ serverUrl: nobody.url, engineUrl: NO_ENGINE });
  // A restart of the server would be over soon: it is not loud yet.
  assertLine(await notConnected(client, 'info'), 'server_unreachable', /ECONNREFUSED/);
});

describe('a backbone that is away', () => {
  it('is the code that the server names, for whoever publishes', async () => {
    const answering = createServer((_, answer) => {
      answer.writeHead(503, { 'x-sync-error': 'backbone_unavailable', 'retry-after': '1' });
      answer.end('{"detail":"the backbone does not answer"}');
    });
    await using server = await listening(answering);
    const message = /not published: the server answered 503: the backbone does not answer/;
    assertFailure(await publish({ SYNC_SERVER_URL: server.url }), 'backbone_unavailable', message);
  });

  it('is a line with its code and remedy at the server', async () => {
    await using folder = await tempDir();
    const env = { SYNC_BROADCAST_URI: `redis://127.0.0.1:${await freePort()}`, SYNC_STATE_DIR: folder.path };
    await using server = startCommand('server', ['run', '--server-bind-port', '0'], env);
    const line = await logged(server, 'the backbone does not respond yet');
    assertLine(line, 'backbone_unavailable', /ECONNREFUSED/);
    assert.equal(line.err, undefined, 'no stack');
  });
});
