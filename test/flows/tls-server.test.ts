import assert from 'node:assert/strict';
import { once } from 'node:events';
import { copyFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { connect as tlsConnect } from 'node:tls';
import { makeAuthority, type Pair, type TestAuthority } from '../support/certificates.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { doctor } from '../support/doctor.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { baseEntries, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { requestBy } from '../support/tls-request.js';
import { until } from '../support/until.js';

/** Settings of a server that speaks TLS. */
function serving(pair: Pair, more: Record<string, string> = {}): Record<string, string> {
  return { SYNC_SERVER_TLS_CERT_FILE: pair.cert, SYNC_SERVER_TLS_KEY_FILE: pair.key, ...more };
}

/** Settings of a client that trusts an authority, and shows a certificate where one is given. */
function trusting(file: string, own?: Pair): Record<string, string> {
  return {
    SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED: 'true',
    SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE: file,
    ...(own === undefined ? {} : { SYNC_CLIENT_TLS_CERT_FILE: own.cert, SYNC_CLIENT_TLS_KEY_FILE: own.key }),
  };
}

describe('TLS', () => {
  let authority: TestAuthority;
  let stranger: TestAuthority;
  let serverPair: Pair;
  let clientPair: Pair;
  let strangerPair: Pair;
  let repo: GitRepo;
  let source: DataSource;
  /** Asks for no certificate of its callers; {@link closed} does. */
  let open: StartedServer;
  let closed: StartedServer;
  /** A client that `closed` knows. */
  let known: StartedClient;
  /** The engine of clients that are refused. */
  let emptyOpa: TestOpa;
  /** Its certificate is renewed while the other cases run. */
  let renewing: StartedServer;
  let firstCertificate: string;

  before(async () => {
    [authority, stranger] = await Promise.all([makeAuthority('test authority'), makeAuthority('a stranger')]);
    serverPair = await authority.issue('server');
    clientPair = await authority.issue('client');
    strangerPair = await stranger.issue('client');
    const files = { cert: `${authority.dir}/live.pem`, key: `${authority.dir}/live.key` };
    await copyFile(serverPair.cert, files.cert);
    await copyFile(serverPair.key, files.key);
    renewing = await startServer(serving(files));
    firstCertificate = await serverCertificate(renewing.port);
    const renewed = await authority.issue('renewed');
    await copyFile(renewed.cert, files.cert);
    await copyFile(renewed.key, files.key);

    repo = await gitRepo();
    await repo.commit({ 'app.rego': 'package app\n\nallow := data.users.ann\n' });
    source = await startDataSource();
    source.serve('/users', { ann: true });
    const base = baseEntries({ url: `${source.url}/users`, dst_path: '/users' });
    open = await startServer(serving(serverPair, { SYNC_POLICY_REPO_URL: repo.url, ...base }));
    closed = await startServer(serving(serverPair, { SYNC_SERVER_TLS_CA_FILE: authority.file }));
    emptyOpa = await startOpa();
    known = await startClient({
      serverUrl: closed.url,
      env: { ...trusting(authority.file, clientPair), SYNC_POLICY_UPDATER_ENABLED: 'false' },
    });
  });
  after(async () => {
    for (const part of [known, emptyOpa, closed, open, source, repo, renewing, authority, stranger]) {
      await part?.[Symbol.asyncDispose]();
    }
  });

  async function publishBy(server: StartedServer, ca: string, own?: Pair) {
    const args = ['publish', '--data', '{"by":"command"}', '-t', 'policy_data', '--dst-path', '/published'];
    return runHere('policysync', args, { SYNC_SERVER_URL: server.url, ...trusting(ca, own) });
  }

  test('policy, base data and updates reach a client over https and wss when it trusts the authority', async () => {
    assert.match(open.url, /^https:/);
    await using client = await startClient({ serverUrl: open.url, env: trusting(authority.file) });
    await client.answers('/app/allow', {}, true);
    await client.healthy();
    const published = await publishBy(open, authority.file);
    assert.equal(published.code, 0, published.stderr);
    await client.holds('/published', { by: 'command' });
  });

  test('a client that does not trust the authority says so in /healthy and in its log, and keeps trying', async () => {
    const env = trusting(stranger.file);
    await using client = await startClient({ serverUrl: open.url, engineUrl: emptyOpa.url, env });
    const answer = await client.tells('the certificate is refused', (health) =>
      /unable to verify|self-signed/.test(String(field(health, 'server', 'error'))),
    );
    assert.equal(answer.status, 503);
    const refusals = () =>
      client.log.filter(({ msg, error }) => msg === 'not connected' && /unable to verify/.test(String(error)));
    await until(() => refusals().length >= 2, { withinMs: 20_000, what: 'a second attempt' });
    const command = await publishBy(open, stranger.file);
    assert.notEqual(command.code, 0);
    assert.match(command.stderr, /unable to verify/);
  });

  test('a CA file without the permission to use it is not trusted, and the log says why', async () => {
    const env = { ...trusting(authority.file), SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED: 'false' };
    await using client = await startClient({ serverUrl: open.url, engineUrl: emptyOpa.url, env });
    await client.tells('the certificate is refused', (health) =>
      /unable to verify/.test(String(field(health, 'server', 'error'))),
    );
    assert(client.log.some(({ msg }) => /SSL_CONTEXT_TRUSTED_CA_FILE has no effect unless/.test(msg)));
  });

  test('a server with a CA serves callers that show a certificate of it, and no others', async () => {
    const refused = { serverUrl: closed.url, engineUrl: emptyOpa.url };
    await using nameless = await startClient({ ...refused, env: trusting(authority.file) });
    await using wrong = await startClient({ ...refused, env: trusting(authority.file, strangerPair) });
    await known.tells('it is connected', (health) => field(health, 'server', 'connected') === true);
    for (const [client, says] of [
      [nameless, /TLS alert "certificate required"/],
      [wrong, /cannot connect to wss:/], // Node ends such a connection without a word
    ] as const) {
      await client.tells('it is refused', (health) => says.test(String(field(health, 'server', 'error'))));
      assert.equal(field((await client.health()).json, 'server', 'connected'), false);
    }
    assert.equal((await publishBy(closed, authority.file, clientPair)).code, 0);
    await known.holds('/published', { by: 'command' });
    await assert.rejects(requestBy({ ca: authority.file })(`${closed.url}/healthcheck`));
    assert.equal(await nameless.data('/published'), undefined);
  });

  test('data of the sync server itself is read with the client certificate, other sources never see it', async () => {
    // Another listener of the same machine that wants a certificate, too: there, none is shown.
    await using other = await startServer(serving(serverPair, { SYNC_SERVER_TLS_CA_FILE: authority.file }));
    const ask = requestBy({ ca: authority.file, own: clientPair });
    const entries = [
      { url: `${closed.url}/healthcheck`, topics: ['policy_data'], dst_path: '/own' },
      { url: `${other.url}/healthcheck`, topics: ['policy_data'], dst_path: '/other' },
    ];
    const body = JSON.stringify({ entries, reason: 'test' });
    assert.equal((await ask(`${closed.url}/data/config`, { method: 'POST', body })).status, 200);
    await until(async () => (await known.data('/own')) !== undefined, { withinMs: 20_000, what: 'its own document' });
    await known.tells('the other source failed', (health) => /other/.test(JSON.stringify(field(health, 'data'))));
    assert.equal(await known.data('/other'), undefined);
  });

  test('http:// in place of https:// is named by commands, doctor and client, with or without the authority', async () => {
    const plain = open.url.replace('https:', 'http:');
    const { code, stderr } = await runHere('policysync', ['status'], { SYNC_SERVER_URL: plain });
    assert.equal(code, 1);
    assert.match(stderr, /no answer from http:\S+: it speaks TLS there \(use https:\/\/\): .*\n.*\[tls_mismatch\]/);
    const found = await doctor(['client'], { ...trusting(authority.file), SYNC_SERVER_URL: plain });
    assert.match(found.of('server'), /^error: .*it speaks TLS there/);
    for (const env of [{}, trusting(authority.file)]) {
      await using client = await startClient({ serverUrl: plain, engineUrl: emptyOpa.url, env });
      const isNamed = (): boolean => client.log.some(({ error }) => String(error).includes('it speaks TLS there'));
      await until(isNamed, { withinMs: 15_000, what: 'the client says it' });
    }
  });

  test('a server that closes plain connections, and takes no TLS, is one that gives no answer', async () => {
    const closing = createServer((socket) => socket.destroy());
    await once(closing.listen(0, '127.0.0.1'), 'listening');
    const { port } = closing.address() as AddressInfo;
    const { stderr } = await runHere('policysync', ['status'], { SYNC_SERVER_URL: `http://127.0.0.1:${port}` });
    closing.close();
    assert.match(stderr, /\[server_unreachable\]/);
    assert.doesNotMatch(stderr, /TLS/);
  });

  test('TLS 1.1 is refused', async () => {
    const problem = await new Promise<Error | undefined>((resolve) => {
      const socket = tlsConnect({
        port: open.port,
        host: '127.0.0.1',
        maxVersion: 'TLSv1.1',
        minVersion: 'TLSv1.1',
        ciphers: 'DEFAULT@SECLEVEL=0',
        rejectUnauthorized: false,
      });
      socket.once('error', resolve).once('secureConnect', () => {
        socket.destroy();
        resolve(undefined);
      });
    });
    assert.match(String(problem), /alert|protocol version/i);
  });

  for (const [what, env, says] of [
    [
      'a certificate without a key',
      () => ({ SYNC_SERVER_TLS_CERT_FILE: serverPair.cert }),
      /SYNC_SERVER_TLS_CERT_FILE/,
    ],
    ['a CA alone', () => ({ SYNC_SERVER_TLS_CA_FILE: authority.file }), /SYNC_SERVER_TLS_CA_FILE/],
    [
      'the key of another certificate',
      () => serving({ cert: serverPair.cert, key: clientPair.key }),
      /SYNC_SERVER_TLS_KEY_FILE: .*client\.key is not the key of/,
    ],
    [
      'a file that is not there',
      () => serving({ ...serverPair, cert: '/nowhere.pem' }),
      /\/nowhere\.pem cannot be read/,
    ],
    ['a key in place of a certificate', () => serving({ ...serverPair, cert: serverPair.key }), /has no certificate/],
  ] as const) {
    test(`does not start with ${what}, and names setting and file`, async () => {
      await assert.rejects(startServer(env()), { code: 'config_invalid', message: says });
    });
  }

  test('the client API answers https, to callers with a certificate of its CA alone where one is set', async () => {
    const ask = requestBy({ ca: authority.file, own: clientPair });
    const env = {
      ...trusting(authority.file),
      SYNC_POLICY_UPDATER_ENABLED: 'false',
      SYNC_CLIENT_API_TLS_CERT_FILE: serverPair.cert,
      SYNC_CLIENT_API_TLS_KEY_FILE: serverPair.key,
      SYNC_CLIENT_API_TLS_CA_FILE: authority.file,
    };
    await using client = await startClient({ serverUrl: open.url, env, ask });
    assert.match(client.url, /^https:/);
    await client.healthy();
    await assert.rejects(requestBy({ ca: authority.file })(`${client.url}/healthy`));
    await assert.rejects(requestBy({ ca: authority.file, own: strangerPair })(`${client.url}/healthy`));
    assert(client.log.some(({ msg }) => msg === 'TLS connection refused'));
  });

  test('a renewed certificate is served without a restart', async () => {
    await until(async () => (await serverCertificate(renewing.port)) !== firstCertificate, {
      withinMs: 15_000,
      what: 'the renewed certificate is served',
    });
    assert.equal((await requestBy({ ca: authority.file })(`${renewing.url}/healthcheck`)).status, 200);
  });
});

/** Nothing else starts timers meanwhile. */
describe('TLS of a server alone', () => {
  test('a start that fails at a route leaves nothing that reads the certificate files', async (t) => {
    await using authority = await makeAuthority('test authority');
    const serverPair = await authority.issue('server');
    const begun = t.mock.method(globalThis, 'setInterval');
    const ended = t.mock.method(globalThis, 'clearInterval');
    const params = {
      ...{ secret_header_name: 'x', secret_type: 'token', secret_parsing_regex: '(?=x)' },
      ...{ event_header_name: 'y', push_event_value: 'push' },
    };
    const env = serving(serverPair, { SYNC_POLICY_REPO_WEBHOOK_PARAMS: JSON.stringify(params) });
    await assert.rejects(startServer(env), { code: 'config_invalid', message: /secret_parsing_regex/ });
    const left = new Set(begun.mock.calls.map(({ result }) => result));
    assert(left.size > 0);
    for (const { arguments: args } of ended.mock.calls) left.delete(args[0] as NodeJS.Timeout);
    assert.equal(left.size, 0);
  });
});

/** Serial number of the certificate that a server shows. */
function serverCertificate(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = tlsConnect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}
