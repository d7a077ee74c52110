import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { makeAuthority, type Pair, type TestAuthority } from '../support/certificates.js';
import { startProxy } from '../support/connect-proxy.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { killProcess } from '../support/kill.js';
import { freePort, startOpa, type TestOpa } from '../support/opa.js';
import { following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { requestBy } from '../support/tls-request.js';
import { until } from '../support/until.js';

const TOKEN = 'the-right-engine-token';
const OAUTH_SECRET = 'the-oauth-client-secret';
/** Who may call the engine, by how it knows him: a token, an OAuth token that is not revoked, a certificate. */
const AUTHZ = `package system.authz

default allow := false

allow if input.identity in {"${TOKEN}", "CN=client"}

allow if {
	startswith(input.identity, "issued-")
	not data.revoked[input.identity]
}

allow if input.path == ["health"]
`;
const POLICY = 'package app\n\nallow if data.users[input.name]\n';
const MODULES = { 'app.rego': POLICY };
const DIRECT = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

let authority: TestAuthority;
let stranger: TestAuthority;
let enginePair: Pair;
let clientPair: Pair;
let otherPair: Pair;
let dir: TempDir;
let authz: string;
let repo: GitRepo;
let server: StartedServer;
const tokenAuth = (token: string): Record<string, string> => ({
  SYNC_POLICY_STORE_AUTH_TYPE: 'token',
  SYNC_POLICY_STORE_AUTH_TOKEN: token,
});
const tlsAuth = (own: Pair, ca = authority.file): Record<string, string> => ({
  SYNC_POLICY_STORE_AUTH_TYPE: 'tls',
  SYNC_POLICY_STORE_TLS_CLIENT_CERT: own.cert,
  SYNC_POLICY_STORE_TLS_CLIENT_KEY: own.key,
  SYNC_POLICY_STORE_TLS_CA: ca,
});

/** An OPA that lets in who has the token. */
function startTokenOpa(): Promise<TestOpa> {
  return startOpa({ args: ['--authentication=token', '--authorization=basic', authz] });
}

/** An OPA that wants a certificate of the authority, with the name that its policy knows. */
function startTlsOpa(): Promise<TestOpa> {
  const ask = requestBy({ ca: authority.file, own: clientPair });
  const args = ['--authentication=tls', '--authorization=basic', `--tls-ca-cert-file=${authority.file}`];
  args.push(`--tls-cert-file=${enginePair.cert}`, `--tls-private-key-file=${enginePair.key}`, authz);
  return startOpa({ args, scheme: 'https', ask });
}

/** Policy, static and published data go in; the engine answers with them; nothing of ours is in log or health. */
async function followsServer(client: StartedClient, serverUrl: string): Promise<void> {
  await publish(serverUrl, { dst_path: '/users', data: { ann: true } });
  await client.answers('/app/allow', { name: 'ann' }, true);
  await publish(
    serverUrl,
    { dst_path: '/users/bob', data: true },
    { dst_path: '/more', data: { big: 'x'.repeat(100_000) } },
  );
  await client.answers('/app/allow', { name: 'bob' }, true);
  await client.healthy();
}

async function showsNoSecret(client: StartedClient, ...secrets: string[]): Promise<void> {
  const seen = JSON.stringify(client.log) + (await client.health()).text;
  for (const secret of secrets) assert(!seen.includes(secret), `${secret} shows`);
}

describe('an engine that lets in who it knows', () => {
  before(async () => {
    [authority, stranger, dir] = await Promise.all([
      makeAuthority('engine authority'),
      makeAuthority('stranger'),
      tempDir(),
    ]);
    enginePair = await authority.issue('engine');
    clientPair = await authority.issue('client');
    otherPair = await stranger.issue('client');
    authz = join(dir.path, 'authz.rego');
    await writeFile(authz, AUTHZ);
    repo = await gitRepo();
    await repo.commit(MODULES);
    server = await startServer(following(repo));
  });
  after(async () => {
    for (const each of [server, repo, authority, stranger, dir]) await each?.[Symbol.asyncDispose]();
  });

  describe('external engine', () => {
    /** Refused first, and filled then. */
    let tokenOpa: TestOpa;
    let tlsOpa: TestOpa;
    before(async () => {
      [tokenOpa, tlsOpa] = await Promise.all([startTokenOpa(), startTlsOpa()]);
      await publish(server.url, { dst_path: '/refused', data: 1 });
    });
    after(async () => {
      for (const part of [tlsOpa, tokenOpa]) await part?.[Symbol.asyncDispose]();
    });

    for (const [what, env] of [
      ['another token', () => tokenAuth('another-engine-token')],
      ['no token', () => ({})],
    ] as const) {
      test(`token: with ${what} the client says that the engine does not let it in, and changes nothing`, async () => {
        await using client = await startClient({
          serverUrl: server.url,
          engineUrl: tokenOpa.url,
          env: { ...DIRECT, ...env() },
        });
        const answer = await client.tells('it is refused', (health) =>
          /does not let us in.*401/.test(String(field(health, 'engine', 'error'))),
        );
        assert.equal(answer.status, 503);
        assert.equal(
          field((await requestBy({ token: TOKEN })(`${tokenOpa.url}/v1/data/refused`)).json, 'result'),
          undefined,
        );
        await showsNoSecret(client, 'another-engine-token');
      });
    }

    test('oauth: a server that gives no token is told in /healthy, and the client goes on when it does', async () => {
      await using oauth = await startOauthServer();
      const env = {
        ...DIRECT,
        SYNC_POLICY_STORE_AUTH_TYPE: 'oauth',
        SYNC_POLICY_STORE_AUTH_OAUTH_SERVER: oauth.url,
        SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID: 'policysync',
        SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET: 'a-wrong-secret',
      };
      const ask = requestBy({ token: TOKEN });
      await using client = await startClient({ serverUrl: server.url, engineUrl: tokenOpa.url, env, ask });
      await client.tells('there is no token', (health) =>
        /no token for the engine.*answered 401 invalid_client/.test(String(field(health, 'engine', 'error'))),
      );
      oauth.secret = 'a-wrong-secret'; // the operator corrects the other side
      await client.healthy();
      await client.holds('/refused', 1);
      await showsNoSecret(client, 'a-wrong-secret', 'issued-');
    });

    test('token: every call carries it, and policy and data arrive', async () => {
      const ask = requestBy({ token: TOKEN });
      await using client = await startClient({
        serverUrl: server.url,
        engineUrl: tokenOpa.url,
        env: tokenAuth(TOKEN),
        ask,
      });
      await followsServer(client, server.url);
      assert.equal((await requestBy({})(`${tokenOpa.url}/v1/data/users`)).status, 401);
      await showsNoSecret(client, TOKEN);
    });

    test('oauth: a token by client credentials, a new one before it ends and after the engine refuses it', async () => {
      await using opa = await startTokenOpa();
      await using oauth = await startOauthServer();
      oauth.expiresIn = 2;
      const env = {
        SYNC_POLICY_STORE_AUTH_TYPE: 'oauth',
        SYNC_POLICY_STORE_AUTH_OAUTH_SERVER: oauth.url,
        SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID: 'policysync',
        SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET: OAUTH_SECRET,
      };
      const ask = requestBy({ token: TOKEN });
      await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env, ask });
      await followsServer(client, server.url);
      oauth.expiresIn = 3600;
      const rotated = oauth.issued;
      await until(() => oauth.issued > rotated, { withinMs: 20_000, what: 'a token was renewed before its end' });

      const revoked = oauth.issued;
      await ask(`${opa.url}/v1/data/revoked`, { method: 'PUT', body: JSON.stringify({ [`issued-${revoked}`]: true }) });
      await until(() => oauth.issued > revoked, { withinMs: 20_000, what: 'a token after the refusal' });
      await publish(server.url, { dst_path: '/users/eve', data: true });
      await client.answers('/app/allow', { name: 'eve' }, true);
      await client.healthy();
      assert.equal(oauth.issued, revoked + 1);
      await showsNoSecret(
        client,
        OAUTH_SECRET,
        Buffer.from(`policysync:${OAUTH_SECRET}`).toString('base64'),
        'issued-',
      );
    });

    for (const [what, env, says] of [
      ['a certificate of another authority', () => tlsAuth(otherPair), /TLS alert "(unknown ca|bad certificate)"/],
      ['no certificate', () => ({ SYNC_POLICY_STORE_TLS_CA: authority.file }), /TLS alert "certificate required"/],
      ['another authority for the engine', () => tlsAuth(clientPair, stranger.file), /unable to verify/],
      ['the well-known authorities', () => ({}), /unable to verify/],
    ] as const) {
      test(`tls: with ${what} the client says so and changes nothing`, async () => {
        await using client = await startClient({
          serverUrl: server.url,
          engineUrl: tlsOpa.url,
          env: { ...DIRECT, ...env() },
        });
        await client.tells('it is refused', (health) => says.test(String(field(health, 'engine', 'error'))));
        const ask = requestBy({ ca: authority.file, own: clientPair });
        assert.equal(field((await ask(`${tlsOpa.url}/v1/data/refused`)).json, 'result'), undefined);
      });
    }

    test('tls: the engine gets our certificate, we accept its authority alone, and policy and data arrive', async () => {
      const ask = requestBy({ ca: authority.file, own: clientPair });
      await using client = await startClient({
        serverUrl: server.url,
        engineUrl: tlsOpa.url,
        env: tlsAuth(clientPair),
        ask,
      });
      await followsServer(client, server.url);
    });

    test('the engine is never asked through a proxy', async () => {
      await using proxy = await startProxy();
      await using client = await startClient({
        serverUrl: server.url,
        engineUrl: 'http://engine.test:8181',
        env: DIRECT,
        programEnv: { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url },
      });
      await client.tells('it was asked', (health) =>
        /cannot be reached/.test(String(field(health, 'engine', 'error'))),
      );
      assert.deepEqual(proxy.requests, []);
    });
  });

  describe('inline engine', () => {
    test('token and authorization policy: our own OPA lets us in, also after it was restarted', async () => {
      const ask = requestBy({ token: TOKEN });
      const config = { authentication: 'token', authorization: 'basic', files: [authz] };
      await using client = await startClient({
        serverUrl: server.url,
        env: { ...tokenAuth(TOKEN), SYNC_INLINE_ENGINE_CONFIG: JSON.stringify(config) },
        ask,
      });
      await followsServer(client, server.url);
      assert.equal((await requestBy({})(`${client.engineUrl}/v1/data/users`)).status, 401);
      killProcess(client.enginePid());
      await until(() => client.log.filter(({ msg }) => msg === 'engine holds our state').length > 1, {
        withinMs: 15_000,
        what: 'the engine is filled again',
      });
      await client.answers('/app/allow', { name: 'bob' }, true);
      await showsNoSecret(client, TOKEN);
    });

    test('TLS with client certificates: our own OPA lets us in, also after it was restarted', async () => {
      const ask = requestBy({ ca: authority.file, own: clientPair });
      const config = {
        authentication: 'tls',
        authorization: 'basic',
        tls_cert_file: enginePair.cert,
        tls_private_key_file: enginePair.key,
        tls_ca_cert_file: authority.file,
        files: [authz],
      };
      const env = {
        ...tlsAuth(clientPair),
        SYNC_POLICY_STORE_URL: `https://127.0.0.1:${await freePort()}`,
        SYNC_INLINE_ENGINE_CONFIG: JSON.stringify(config),
      };
      await using client = await startClient({ serverUrl: server.url, env, ask });
      await followsServer(client, server.url);
      await assert.rejects(requestBy({ ca: authority.file })(`${client.engineUrl}/v1/data/users`));
      killProcess(client.enginePid());
      await until(() => client.log.filter(({ msg }) => msg === 'engine holds our state').length > 1, {
        withinMs: 15_000,
        what: 'the engine is filled again',
      });
      await client.answers('/app/allow', { name: 'bob' }, true);
    });

    test('settings with which it could not let us in are refused at the start', async () => {
      const env = { SYNC_INLINE_ENGINE_CONFIG: JSON.stringify({ authorization: 'basic' }) };
      await assert.rejects(startClient({ serverUrl: server.url, env }), {
        code: 'config_invalid',
        message: /needs a policy for package system\.authz from the start/,
      });
    });
  });
});

/** A token endpoint: tokens `issued-1`, `issued-2` and so on, for the client `policysync` with its secret. */
async function startOauthServer() {
  const state = { issued: 0, expiresIn: 3600, secret: OAUTH_SECRET };
  const server = createServer((request, response) => {
    request.resume();
    const due = `Basic ${Buffer.from(`policysync:${state.secret}`).toString('base64')}`;
    response.setHeader('content-type', 'application/json');
    if (request.headers.authorization !== due) {
      response.writeHead(401).end(JSON.stringify({ error: 'invalid_client', error_description: state.secret }));
      return;
    }
    state.issued++;
    response.end(JSON.stringify({ access_token: `issued-${state.issued}`, expires_in: state.expiresIn }));
  });
  const listener = await listening(server);
  return Object.assign(state, listener, { url: `${listener.url}/token` });
}
