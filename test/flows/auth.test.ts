import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { bearer, MASTER_TOKEN, tokenOf } from '../support/auth.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { baseEntries, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

/** Keys from the usual tool, tokens from our program, and then everything works as without: server, publisher, client, OPA. */

const MODULE = 'package app\nimport rego.v1\ndefault allow := false\nallow if input.user in data.users\n';

interface SshKeys extends AsyncDisposable {
  readonly env: Record<string, string>;
  readonly publicLine: string;
}

/** The keys that `ssh-keygen` makes by default forms: an OpenSSH container and an SSH line. */
async function sshKeys(): Promise<SshKeys> {
  const folder = await tempDir();
  const file = join(folder.path, 'key');
  await promisify(execFile)('ssh-keygen', ['-q', '-t', 'rsa', '-b', '2048', '-N', '', '-f', file]);
  const publicLine = await readFile(`${file}.pub`, 'utf8');
  return {
    env: {
      SYNC_AUTH_PUBLIC_KEY: publicLine,
      SYNC_AUTH_PRIVATE_KEY: file,
      SYNC_AUTH_PRIVATE_KEY_FORMAT: 'ssh',
      SYNC_AUTH_MASTER_TOKEN: MASTER_TOKEN,
    },
    publicLine,
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

async function obtainToken(serverUrl: string, ...args: string[]): Promise<string> {
  const env = { SYNC_SERVER_URL: serverUrl, SYNC_MASTER_TOKEN: MASTER_TOKEN };
  const { code, stdout, stderr } = await runHere('policysync', ['token', ...args], env);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

async function publish(serverUrl: string, token: string, path: string, data: string) {
  const args = ['publish', '--data', data, '-t', 'policy_data', '--dst-path', path];
  return runHere('policysync', args, { SYNC_SERVER_URL: serverUrl, SYNC_CLIENT_TOKEN: token });
}

describe('server, publisher, client and engine', () => {
  let repo: GitRepo;
  let keys: SshKeys;
  let server: StartedServer;
  /** The engine of clients that are refused. */
  let emptyOpa: TestOpa;
  /** Its token ends while the other cases run. */
  let shortToken: string;
  let shortLived: StartedClient;

  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'app.rego': MODULE });
    keys = await sshKeys();
    server = await startServer({
      ...keys.env,
      SYNC_POLICY_REPO_URL: repo.url,
      ...baseEntries({ url: '', dst_path: '/base', data: { from: 'base' } }),
    });
    emptyOpa = await startOpa();
    shortToken = await tokenOf(server.url, { ttl: 5 });
    const env = { SYNC_CLIENT_TOKEN: shortToken, SYNC_POLICY_UPDATER_ENABLED: 'false' };
    shortLived = await startClient({ serverUrl: server.url, env });
    await shortLived.holds('/base', { from: 'base' });
  });
  after(async () => {
    for (const part of [shortLived, emptyOpa, server, keys, repo]) await part?.[Symbol.asyncDispose]();
  });

  it('with authentication on, a client with its token gets policy and data, and nothing without one', async () => {
    const env = { SYNC_AUTH_PUBLIC_KEY: keys.publicLine };
    const clientToken = await obtainToken(server.url, '--claims', '{"tenant":"t1"}');
    const sourceToken = await obtainToken(server.url, '--type', 'datasource', '--ttl', '1', 'hours');
    await using client = await startClient({ serverUrl: server.url, env: { ...env, SYNC_CLIENT_TOKEN: clientToken } });
    await using stranger = await startClient({ serverUrl: server.url, engineUrl: emptyOpa.url, env });

    await client.holds('/base', { from: 'base' });
    await client.healthy();
    const published = await publish(server.url, sourceToken, '/users', '["ann"]');
    assert.equal(published.code, 0, published.stderr);
    await client.answers('/app/allow', { user: 'ann' }, true);
    await client.answers('/app/allow', { user: 'bob' }, false);

    const refused = await publish(server.url, clientToken, '/users', '["bob"]');
    assert.equal(refused.code, 1);
    assert.match(
      refused.stderr,
      /nothing was sent: the token of SYNC_CLIENT_TOKEN is of type client, and this needs one of type datasource/,
    );

    await repo.commit({ 'app.rego': MODULE.replace('in data.users', '== "eve"') });
    assert.equal((await postJson(`${server.url}/policy/refresh`, {}, bearer(sourceToken))).status, 200);
    await client.answers('/app/allow', { user: 'eve' }, true);

    const told = await stranger.tells(
      'the stranger is refused',
      (json) => field(json, 'server', 'code') === 'token_refused',
    );
    assert.equal(told.status, 503);
    assert.equal(await stranger.data('/base'), undefined);
    for (const started of [client, stranger]) {
      const said = JSON.stringify(started.log) + (await started.health()).text;
      assert.doesNotMatch(said, /eyJ/, 'no token in logs or answers');
    }
  });

  it('a client reads the file of its token at each attempt to connect', async () => {
    await using dir = await tempDir();
    const file = join(dir.path, 'token');
    await writeFile(file, 'not-a-token', { mode: 0o600 });
    const env = { SYNC_CLIENT_TOKEN_FILE: file, SYNC_POLICY_UPDATER_ENABLED: 'false' };
    await using client = await startClient({ serverUrl: server.url, env });
    await client.tells('it is refused', (json) => field(json, 'server', 'code') === 'token_refused');
    await writeFile(file, await tokenOf(server.url));
    await client.holds('/base', { from: 'base' });
    await client.healthy();
  });

  it('a client whose token is limited to topics gets those alone', async () => {
    const source = await tokenOf(server.url, { type: 'datasource' });
    const token = await tokenOf(server.url, { claims: { permitted_topics: ['default:policy:.', 'tenant/a'] } });
    const tell = async (tenant: string, path: string, data: unknown): Promise<void> => {
      const entries = [{ url: '', topics: [`tenant/${tenant}`], dst_path: path, data }];
      const { status, text } = await postJson(`${server.url}/data/config`, { entries }, bearer(source));
      assert.equal(status, 200, text);
    };
    for (const tenant of ['a', 'b']) await tell(tenant, `/${tenant}`, { of: tenant });
    const env = { SYNC_CLIENT_TOKEN: token };
    await using client = await startClient({ serverUrl: server.url, env: { ...env, SYNC_DATA_TOPICS: 'tenant/a' } });
    await client.holds('/a', { of: 'a' });
    await client.healthy();
    for (const tenant of ['b', 'a']) await tell(tenant, `/${tenant}/n`, 1);
    await client.holds('/a', { of: 'a', n: 1 });
    assert.equal(await client.data('/b'), undefined);

    await using greedy = await startClient({
      serverUrl: server.url,
      engineUrl: emptyOpa.url,
      env: { ...env, SYNC_DATA_TOPICS: 'tenant/a,tenant/b' },
    });
    await greedy.tells('it is refused', (json) =>
      /refused the subscription/.test(String(field(json, 'server', 'error'))),
    );
    assert.equal(await greedy.data('/b'), undefined);
  });

  it('when the token of a client ends, the engine keeps what it has', async () => {
    await shortLived.tells('the server ends it', (json) => field(json, 'server', 'connected') === false);
    await shortLived.tells('and refuses it', (json) => field(json, 'server', 'code') === 'token_refused');
    assert.deepEqual(await shortLived.data('/base'), { from: 'base' });
    const headers = { authorization: `Bearer ${shortToken}` };
    const expired = await request(`${server.url}/data/config`, { headers });
    assert.deepEqual(expired.json, { detail: { error: 'Access token is expired' } });
  });
});
