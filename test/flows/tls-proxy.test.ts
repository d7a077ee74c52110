import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { makeAuthority, type Pair, type TestAuthority } from '../support/certificates.js';
import { runCommand } from '../support/command.js';
import { PROXY_PASSWORD, startProxy } from '../support/connect-proxy.js';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { failing, following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { requestBy } from '../support/tls-request.js';
import { until } from '../support/until.js';

/** Names below `.test` exist only behind the proxy: whoever asks for one directly gets nowhere. */

let authority: TestAuthority;
let pair: Pair;

const MODULES = { 'app.rego': 'package app\n\nallow := true\n' };
const trusting = (): Record<string, string> => ({
  SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED: 'true',
  SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE: authority.file,
});
/** The name by which the proxies know a server that listens on loopback. */
const NAMED = { SYNC_ALLOWED_HOSTS: '.test' };
const serving = (): Record<string, string> => ({
  SYNC_SERVER_TLS_CERT_FILE: pair.cert,
  SYNC_SERVER_TLS_KEY_FILE: pair.key,
  ...NAMED,
});

async function showsNoPassword(client: StartedClient): Promise<void> {
  const seen = JSON.stringify(client.log) + (await client.health()).text;
  assert(!seen.includes(PROXY_PASSWORD), 'the password of the proxy shows');
  assert(!seen.includes(Buffer.from(`ann:${PROXY_PASSWORD}`).toString('base64')), 'the credentials of the proxy show');
}

describe('what goes through a proxy', () => {
  before(async () => {
    authority = await makeAuthority('test authority');
    pair = await authority.issue('server');
  });
  after(() => authority?.[Symbol.asyncDispose]());

  for (const scheme of ['http', 'https'] as const) {
    it(`an ${scheme} server is reached through a proxy that wants credentials: bundles, base data, socket`, async () => {
      await using repo = await gitRepo();
      await repo.commit(MODULES);
      await using server = await startServer({
        ...following(repo),
        ...NAMED,
        ...(scheme === 'https' ? serving() : {}),
      });
      const ask = requestBy({ ca: authority.file });
      const hasPolicy = async () => (await ask(`${scheme}://127.0.0.1:${server.port}/policy`)).status === 200;
      await until(hasPolicy, { withinMs: 20_000, what: 'the server has the policy' });
      await using proxy = await startProxy();
      const programEnv = { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url };
      const url = `${scheme}://server.test:${server.port}`;
      await using client = await startClient({ serverUrl: url, env: trusting(), programEnv });
      await client.answers('/app/allow', {}, true);
      await client.tells('the socket is up', (health) => field(health, 'server', 'connected') === true);
      const args = ['publish', '--data', '1', '-t', 'policy_data', '--dst-path', '/published'];
      const env = { SYNC_SERVER_URL: url, ...trusting(), http_proxy: proxy.url, https_proxy: proxy.url };
      const command = await runCommand('policysync', args, env);
      assert.equal(command.code, 0, command.stderr);
      await client.holds('/published', 1);
      await client.healthy();
      const place = `server.test:${server.port}`;
      assert(proxy.requests.filter((request) => request === `CONNECT ${place}`).length >= 1, 'the socket');
      // Plain http goes to the proxy as such; https by a tunnel for it and one for the socket.
      if (scheme === 'http')
        assert(proxy.requests.some((request) => request.startsWith(`GET http://${place}/policy?`)));
      else assert(proxy.requests.every((request) => request === `CONNECT ${place}`));
      await showsNoPassword(client);
    });
  }

  it('data sources are read through the proxy, by http and https, except those that NO_PROXY lists', async () => {
    await using source = await startDataSource();
    source.serve('/users', { ann: true });
    await using secure = await startServer(serving());
    await using server = await startServer();
    await using proxy = await startProxy();
    const programEnv = { HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url, NO_PROXY: 'direct.test' };
    const env = { ...trusting(), SYNC_POLICY_UPDATER_ENABLED: 'false' };
    await using client = await startClient({ serverUrl: server.url, env, programEnv });
    const { port } = new URL(source.url);
    await publish(
      server.url,
      { url: `http://source.test:${port}/users`, dst_path: '/plain' },
      { url: `https://secure.test:${secure.port}/healthcheck`, dst_path: '/secure' },
      { url: `http://direct.test:${port}/users`, dst_path: '/direct' },
      // This machine is never behind a proxy.
      { url: `${source.url}/users`, dst_path: '/here' },
    );
    await client.holds('/plain', { ann: true });
    await client.holds('/here', { ann: true });
    await until(async () => (await client.data('/secure')) !== undefined, {
      withinMs: 20_000,
      what: 'the https source',
    });
    await client.tells('the excluded one fails', (health) =>
      failing(health).some((text) => text.includes('direct.test')),
    );
    assert.deepEqual([...new Set(proxy.requests)].sort(), [
      `CONNECT secure.test:${secure.port}`,
      `GET http://source.test:${port}/users`,
    ]);
    await showsNoPassword(client);
  });

  it('a proxy that refuses is named, without its credentials, and tried again', async () => {
    await using server = await startServer(serving());
    await using proxy = await startProxy();
    const programEnv = { HTTPS_PROXY: proxy.url.replace(PROXY_PASSWORD, 'a-wrong-password') };
    const url = `https://server.test:${server.port}`;
    await using client = await startClient({ serverUrl: url, env: trusting(), programEnv });
    await client.tells('the proxy is named', (health) =>
      /the proxy http:\/\/127\.0\.0\.1:\d+ answered 407 to CONNECT for server\.test/.test(
        String(field(health, 'server', 'error')),
      ),
    );
    const seen = proxy.requests.length;
    await until(() => proxy.requests.length > seen, { withinMs: 20_000, what: 'another attempt' });
    assert(!JSON.stringify(client.log).includes('a-wrong-password'));
  });

  it('an address of a proxy that is none is refused at the start', async () => {
    await using server = await startServer();
    const programEnv = { HTTPS_PROXY: 'socks5://ann:hush-hush@proxy:1' };
    await assert.rejects(startClient({ serverUrl: server.url, programEnv }), {
      code: 'config_invalid',
      message: /^HTTPS_PROXY is not the address of a proxy: it must be http:\/\/host:port$/,
    });
  });

  it('the client certificate goes through the tunnel to the server, and the proxy sees nothing of it', async () => {
    const own = await authority.issue('client');
    await using server = await startServer({ ...serving(), SYNC_SERVER_TLS_CA_FILE: authority.file });
    await using proxy = await startProxy();
    const env = {
      ...trusting(),
      SYNC_CLIENT_TLS_CERT_FILE: own.cert,
      SYNC_CLIENT_TLS_KEY_FILE: own.key,
      SYNC_POLICY_UPDATER_ENABLED: 'false',
    };
    const programEnv = { HTTPS_PROXY: proxy.url };
    await using client = await startClient({ serverUrl: `https://server.test:${server.port}`, env, programEnv });
    const ask = requestBy({ ca: authority.file, own });
    const entries = [{ url: '', topics: ['policy_data'], dst_path: '/users', data: { ann: true } }];
    await ask(`${server.url}/data/config`, { method: 'POST', body: JSON.stringify({ entries, reason: 'test' }) });
    await client.holds('/users', { ann: true });
    await client.healthy();
  });
});
