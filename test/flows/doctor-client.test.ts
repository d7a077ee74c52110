import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { keyPair, tokenOf, withKeys } from '../support/auth.js';
import { makeAuthority } from '../support/certificates.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { type Diagnosis, doctor } from '../support/doctor.js';
import { listening } from '../support/http-server.js';
import { freePort, startOpa, testOpa } from '../support/opa.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

/** `policysync doctor client`, against the real thing that is not in order. */

let sources: DataSource;
let server: StartedServer;
let token: string;
let opa: string;
let ports: { api: string; engine: string };
const keys = keyPair();

/** `doctor client` with settings in which all is in order, and others. */
function diagnose(env: Record<string, string> = {}, args: readonly string[] = []): Promise<Diagnosis> {
  return doctor(['client', ...args], {
    SYNC_SERVER_URL: server.url,
    SYNC_CLIENT_TOKEN: token,
    SYNC_CLIENT_API_SERVER_PORT: ports.api,
    SYNC_POLICY_STORE_URL: ports.engine,
    SYNC_ENGINE: 'inline',
    SYNC_INLINE_ENGINE_EXEC_PATH: opa,
    ...env,
  });
}

describe('doctor client', () => {
  before(async () => {
    sources = await startDataSource();
    sources.serve('/users', { ann: {} });
    sources.answer('/page', { type: 'text/html', text: '<html></html>' });
    const entry = (path: string, topic: string): object => ({
      url: `${sources.url}${path}`,
      topics: [topic],
      dst_path: path,
    });
    const entries = [entry('/users', 'policy_data'), entry('/page', 'pages')];
    server = await startServer({
      ...withKeys(keys),
      SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries } }),
    });
    token = await tokenOf(server.url, { type: 'client' });
    opa = await testOpa();
    ports = { api: String(await freePort()), engine: `http://127.0.0.1:${await freePort()}` };
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
    await sources[Symbol.asyncDispose]();
  });

  test('a set-up in which all is in order', async () => {
    const found = await diagnose({ SYNC_AUTH_PUBLIC_KEY: keys.publicKey });
    assert.deepEqual(
      found.findings.filter(({ level }) => level !== 'ok'),
      [],
    );
    assert.equal(found.code, 0);
    assert.match(found.of('server'), /answers, status ok/);
    assert.match(found.of('server_clock'), /agree/);
    assert.match(found.of('client_token'), /type client, all topics, until \d{4}-/);
    assert.match(found.of('engine'), /inline OPA \d/);
    assert.match(found.of('client_keys'), /RS256/);
    // Of the topics of this client alone.
    assert.equal(found.findings.filter(({ id }) => id === 'data_source').length, 1);
    assert.ok(!found.text.includes(token));
  });

  test('a source of this client that answers HTML', async () => {
    const found = await diagnose({ SYNC_DATA_TOPICS: 'pages' });
    assert.match(found.of('data_source'), /^error: .*\/page/);
    assert.equal(found.code, 1);
  });

  test('a server that is away, and an address of something else', async () => {
    const away = await diagnose({ SYNC_SERVER_URL: 'http://127.0.0.1:1' });
    assert.match(away.of('server'), /^error: no answer from http:\/\/127\.0\.0\.1:1/);
    assert.match((await diagnose({ SYNC_SERVER_URL: sources.url })).of('server'), /^error: .*not as a sync server/);
  });

  test('a server whose clock is wrong', async () => {
    let secondsAhead = 90;
    const answer = createServer((request, response) => {
      response.setHeader('date', new Date(Date.now() + secondsAhead * 1000).toUTCString());
      response.setHeader('content-type', 'application/json');
      response.end(request.url?.startsWith('/healthcheck') === true ? '{"status":"ok"}' : '{"entries":[]}');
    });
    await using wrong = await listening(answer);
    assert.match((await diagnose({ SYNC_SERVER_URL: wrong.url })).of('server_clock'), /^error: .* (89|90) s ahead of/);
    secondsAhead = -20;
    assert.match((await diagnose({ SYNC_SERVER_URL: wrong.url })).of('server_clock'), /^warning: .* s behind/);
  });

  test('no token, one that expired, one of other keys, one of another type, the master token', async () => {
    assert.match(
      (await diagnose({ SYNC_CLIENT_TOKEN: '' })).of('client_token'),
      /^error: none is set, and the server asks/,
    );
    const short = await tokenOf(server.url, { type: 'client', ttl: 1 });
    const ended = Number(JSON.parse(Buffer.from(short.split('.')[1] ?? '', 'base64url').toString()).exp) * 1000;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, ended - Date.now()) + 5));
    assert.match((await diagnose({ SYNC_CLIENT_TOKEN: short })).of('client_token'), /^error: it expired on /);
    await using stranger = await startServer(withKeys());
    const forged = await tokenOf(stranger.url, { type: 'client' });
    assert.match((await diagnose({ SYNC_CLIENT_TOKEN: forged })).of('client_token'), /^error: .*answered 401/);
    const datasource = await tokenOf(server.url, { type: 'datasource' });
    assert.match(
      (await diagnose({ SYNC_CLIENT_TOKEN: datasource })).of('client_token'),
      /^warning: .*for a datasource/,
    );
    const master = await diagnose({ SYNC_CLIENT_TOKEN: 'the-master-token-of-the-test' });
    assert.match(master.of('client_token'), /^error: .*perhaps it is the master token/);
    assert.ok(!master.text.includes('the-master-token'));
  });

  test('a public key that does not verify the token', async () => {
    const found = await diagnose({ SYNC_AUTH_PUBLIC_KEY: keyPair().publicKey });
    assert.match(found.of('client_token'), /^warning: SYNC_AUTH_PUBLIC_KEY does not verify SYNC_CLIENT_TOKEN/);
    assert.match((await diagnose({ SYNC_AUTH_PUBLIC_KEY: '/nowhere' })).of('client_keys'), /^error: /);
  });

  test('a certificate of an unknown authority, and of a known one', async () => {
    await using authority = await makeAuthority('a test');
    const pair = await authority.issue('server');
    await using secure = await startServer({
      ...withKeys(keys),
      SYNC_SERVER_TLS_CERT_FILE: pair.cert,
      SYNC_SERVER_TLS_KEY_FILE: pair.key,
    });
    const url = `https://localhost:${secure.port}`;
    const unknown = await diagnose({ SYNC_SERVER_URL: url });
    assert.match(unknown.of('server'), /^error: .*not of a trusted authority/);
    const idle = await diagnose({ SYNC_SERVER_URL: url, SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE: authority.file });
    assert.match(
      idle.of('client_authority'),
      /^warning: SYNC_CLIENT_SSL_\w+ has no effect unless SYNC_CLIENT_SELF_\w+ is/,
    );
    assert.ok(!unknown.findings.some(({ id }) => id === 'client_authority'));
    const known = await diagnose({
      SYNC_SERVER_URL: url,
      SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED: 'true',
      SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE: authority.file,
    });
    assert.match(known.of('server'), /^ok: /);
    assert.match(known.of('server_certificate'), /^warning: the certificate for localhost, .* expires on /);
  });

  test('an engine that is not there, and one that somebody else runs', async () => {
    const embedded = await diagnose({ SYNC_ENGINE: 'embedded', SYNC_INLINE_ENGINE_EXEC_PATH: '' });
    assert.match(embedded.of('engine'), /^ok: embedded OPA \d/);
    const path = await diagnose({ SYNC_INLINE_ENGINE_EXEC_PATH: '/nowhere/opa' });
    assert.match(path.of('engine'), /^error: inline: .*\/nowhere\/opa does not exist/);
    assert.match((await diagnose({ SYNC_ENGINE: 'external' })).of('engine'), /^error: external OPA at .*ECONNREFUSED/);
    await using running = await startOpa();
    const external = await diagnose({ SYNC_ENGINE: 'external', SYNC_POLICY_STORE_URL: running.url });
    assert.match(external.of('engine'), /^ok: external OPA at .*, version \d/);
    // The address that an engine of its own would have.
    assert.match((await diagnose({ SYNC_POLICY_STORE_URL: running.url })).of('engine_port'), /is held by|in use/);
  });

  test('a backup that is damaged', async () => {
    await using dir = await tempDir();
    const file = join(dir.path, 'backup.json');
    const env = { SYNC_OFFLINE_MODE_ENABLED: 'true', SYNC_STORE_BACKUP_PATH: file };
    assert.match((await diagnose(env)).of('backup'), /^ok: there is none yet/);
    await writeFile(file, '{"format":"policysync-backup","version":1,');
    assert.match((await diagnose(env)).of('backup'), /^error: the backup cannot be used/);
  });
});
