import assert from 'node:assert/strict';
import { chmod } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { keyPair, withKeys } from '../support/auth.js';
import { BACKBONE_PASSWORD, backboneOffer } from '../support/backbone-servers.js';
import { makeAuthority } from '../support/certificates.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { doctor } from '../support/doctor.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { listening } from '../support/http-server.js';
import { freePort } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { startServer } from '../support/start-server.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

/** `policysync doctor server`, against the real thing that is not in order. */

const redis = await backboneOffer('Redis');

const KEYS = withKeys();

let repo: GitRepo;
let dir: TempDir;
let sources: DataSource;
let port: number;

/** Settings of a server in which all is in order. */
function good(): Record<string, string> {
  return {
    SYNC_POLICY_REPO_URL: repo.url,
    SYNC_POLICY_REPO_POLLING_INTERVAL: '5',
    SYNC_SERVER_BIND_PORT: String(port),
    SYNC_STATE_DIR: join(dir.path, 'state'),
    ...KEYS,
  };
}

/** SYNC_DATA_CONFIG_SOURCES with these paths of the data source, each at the same path. */
function entries(...paths: string[]): string {
  const all = paths.map((path) => ({ url: `${sources.url}${path}`, topics: ['policy_data'], dst_path: path }));
  return JSON.stringify({ config: { entries: all } });
}

describe('doctor server', () => {
  before(async () => {
    [repo, dir, sources, port] = await Promise.all([gitRepo(), tempDir(), startDataSource(), freePort()]);
    await repo.commit({ 'a.rego': 'package a\n' });
    sources.serve('/users', { ann: {} });
    sources.answer('/page', { type: 'text/html', text: '<html></html>' });
    sources.answer('/silent', { fault: 'silent' });
  });
  after(async () => {
    for (const one of [repo, dir, sources]) await one[Symbol.asyncDispose]();
  });

  test('a set-up in which all is in order', async () => {
    const found = await doctor([], { ...good(), SYNC_DATA_CONFIG_SOURCES: entries('/users') });
    assert.deepEqual(
      found.findings.filter(({ level }) => level !== 'ok'),
      [],
    );
    assert.equal(found.code, 0);
    assert.match(found.of('git_program'), /version \d/);
    assert.match(found.of('policy_repository'), /branch master is at [0-9a-f]{10}$/);
    assert.match(found.of('keys'), /^ok: RS256/);
    assert.match(found.of('data_source'), /answers with 10 bytes of JSON/);
    assert.match(found.of('server_state'), /made at the first start/);
    assert.doesNotMatch(found.text, /the-master-token|PRIVATE KEY/);
  });

  test('a branch and a repository that are not there, and no git', async () => {
    const env = good();
    const branch = await doctor(['server', '--policy-repo-main-branch', 'main'], env);
    assert.match(branch.of('policy_repository'), /^error: .*branch main does not exist; it has master$/);
    assert.match(JSON.stringify(branch.findings), /SYNC_POLICY_REPO_MAIN_BRANCH to master/);
    assert.equal(branch.code, 1);
    const nowhere = await doctor([], { ...env, SYNC_POLICY_REPO_URL: `${repo.url}-gone`, PATH: dir.path });
    assert.match(nowhere.of('git_program'), /^error: git was not found/);
    assert.match(nowhere.of('policy_repository'), /^error: /);
    const gone = await doctor([], { ...env, SYNC_POLICY_REPO_URL: `${repo.url}-gone` });
    assert.match(gone.of('policy_repository'), /^error: .*does not (appear|exist)|not found/);
  });

  test('keys of two pairs, and of another algorithm', async () => {
    const other = keyPair();
    const two = await doctor([], { ...good(), SYNC_AUTH_PUBLIC_KEY: other.publicKey });
    assert.match(two.of('keys'), /^error: .*not of one pair/);
    const algorithm = await doctor([], { ...good(), SYNC_AUTH_JWT_ALGORITHM: 'EdDSA' });
    assert.match(algorithm.of('keys'), /^error: .*rsa, EdDSA needs ed25519/);
    assert.doesNotMatch(two.text + algorithm.text, /BEGIN/);
  });

  test('a key that is not that of the certificate', async () => {
    await using authority = await makeAuthority('a test');
    const [one, other] = [await authority.issue('one'), await authority.issue('other')];
    const env = { ...good(), SYNC_SERVER_TLS_CERT_FILE: one.cert };
    const bad = await doctor([], { ...env, SYNC_SERVER_TLS_KEY_FILE: other.key });
    assert.match(bad.of('server_tls'), /^error: .*is not the key of the first certificate/);
    // Test certificates end within two days.
    const fits = await doctor([], { ...env, SYNC_SERVER_TLS_KEY_FILE: one.key });
    assert.match(fits.of('server_tls'), /^warning: the certificate for localhost, .*127\.0\.0\.1 expires on /);
  });

  test('a port that another program holds, or a server of ours', async () => {
    await using holder = await listening(createServer((_request, response) => response.end('{}')));
    const held = await doctor([], { ...good(), SYNC_SERVER_BIND_PORT: String(holder.port) });
    assert.match(held.of('server_port'), /^error: 127\.0\.0\.1:\d+ is in use by another program/);
    await using server = await startServer();
    const env = { ...good(), SYNC_SERVER_BIND_PORT: String(server.port) };
    const ours = await doctor([], { ...env, SYNC_STATE_DIR: server.stateDir });
    assert.match(ours.of('server_port'), /^ok: .* is held by the sync server/);
    assert.match((await doctor([], env)).of('server_port'), /^warning: .* another one than this: no server has used/);
    const full = {
      status: 'degraded',
      policy: { error: 'no route' },
      update_log: { refuses: { reason: 'disk full' } },
    };
    await using sick = await listening(createServer((_request, response) => response.end(JSON.stringify(full))));
    const bad = await doctor([], { ...env, SYNC_STATE_DIR: server.stateDir, SYNC_SERVER_BIND_PORT: String(sick.port) });
    assert.match(
      bad.of('server_port'),
      /^warning: .* runs there: its status is degraded: its update log takes no updates: disk full; the policy source fails: no route/,
    );
  });

  test('a state folder that others may read, and one below a file', async () => {
    await using open = await tempDir();
    await chmod(open.path, 0o755);
    const env = { ...good(), SYNC_STATE_DIR: open.path };
    const found = await doctor([], env);
    assert.match(found.of('server_state'), /^warning: .*may be read by other users .*mode 755/);
    assert.equal(found.code, 0);
    assert.equal((await doctor(['--strict'], env)).code, 1);
    const file = await doctor([], { ...env, SYNC_STATE_DIR: join(process.execPath, 'state') });
    assert.match(file.of('server_state'), /^error: .*is not a folder/);
  });

  test('a source that answers HTML, none, or not at all: each by itself and in time', async () => {
    const env = { ...good(), SYNC_DATA_CONFIG_SOURCES: entries('/users', '/page', '/missing', '/silent') };
    const { findings } = await doctor(['--timeout', '2'], env);
    const of = findings.filter(({ id }) => id === 'data_source').map(({ level, message }) => `${level}: ${message}`);
    assert.equal(of.length, 4);
    assert.match(of[0] ?? '', /^ok: /);
    assert.match(of[1] ?? '', /^error: .*\/page.*(HTML|not JSON)/i);
    assert.match(of[2] ?? '', /^error: .*404/);
    assert.match(of[3] ?? '', /^error: (no result within 2 s|.*within)/);
  });

  test('an API on all interfaces without keys and TLS', async () => {
    const { findings } = await doctor(['--server-host', '0.0.0.0', '--policy-repo-url', repo.url, 'server']);
    const warned = findings.filter(({ level }) => level === 'warning').map(({ id }) => id);
    for (const id of ['policy_changes', 'keys', 'server_tls']) assert.ok(warned.includes(id), id);
  });

  test('a Redis that keeps nothing, and one that is away', { skip: redis.missing }, async () => {
    const away = await doctor([], { ...good(), SYNC_BROADCAST_URI: 'redis://app:hush-hush@127.0.0.1:1/0' });
    assert.match(away.of('update_log'), /^error: Redis at 127\.0\.0\.1:1: .*ECONNREFUSED/);
    assert.doesNotMatch(away.text, /hush-hush/);
    await using weak = await redis.start({ lines: ['appendonly no'] });
    const found = await doctor([], { ...good(), SYNC_BROADCAST_URI: weak.uri });
    assert.match(found.of('update_log'), /^warning: .*appendonly is no, not yes/);
    assert.ok(!found.text.includes(BACKBONE_PASSWORD));
  });

  test('settings that are not valid, and a usage error', async () => {
    const bad = await doctor(['server'], { SYNC_SERVER_BIND_PORT: 'x' });
    assert.match(bad.of('server_settings'), /^error: .*SYNC_SERVER_BIND_PORT must be a number/s);
    assert.match(
      (await doctor(['server'], { ...good(), SYNC_TYPO: '1' })).of('server_settings'),
      /^warning: .*SYNC_TYPO/,
    );
    for (const args of [['clients'], ['--timeout', 'soon']]) {
      assert.equal((await runHere('policysync', ['doctor', ...args])).code, 2, args.join(' '));
    }
  });

  test('for people: marks, remedies below, a sum', async () => {
    const { stdout, stderr, code } = await runHere('policysync', ['doctor', 'server'], {
      ...good(),
      SYNC_POLICY_REPO_MAIN_BRANCH: 'main',
    });
    assert.equal(code, 1);
    assert.match(stdout, /^✓ settings of the server: valid\n/);
    assert.match(stdout, /^✗ policy repository: [^✓]*\n {4}Set SYNC_POLICY_REPO_MAIN_BRANCH to master/m);
    assert.match(stdout, /\n\n1 error, 0 warnings, \d+ in order\n$/);
    assert.equal(stderr, '', 'the sum stands once');
    assert.ok(!stdout.includes('\u001b'));
  });
});
