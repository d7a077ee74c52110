import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { bundleOf, tarGz } from '../support/archive.js';
import { bundleHttpServer } from '../support/bundle-http-server.js';
import { field, postJson, request } from '../support/http.js';
import { S3_KEYS, s3Server } from '../support/s3.js';
import { startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

function api(url: string, env: Record<string, string> = {}): Record<string, string> {
  return {
    SYNC_POLICY_SOURCE_TYPE: 'API',
    SYNC_POLICY_BUNDLE_URL: url,
    SYNC_POLICY_REPO_POLLING_INTERVAL: '0.05',
    ...env,
  };
}

/** Waits until the health answer's policy part fits, and answers it. */
function policyHealth(url: string, what: string, fits: (policy: unknown) => boolean): Promise<unknown> {
  return until(
    async () => {
      const policy = field((await request(`${url}/healthcheck`)).json, 'policy');
      return fits(policy) && { policy };
    },
    { withinMs: 15_000, what },
  );
}

async function servedHead(url: string): Promise<string> {
  await policyHealth(url, 'a served bundle', (policy) => typeof field(policy, 'head') === 'string');
  return String(field((await request(`${url}/healthcheck`)).json, 'policy', 'head'));
}

test('a new bundle reaches a client and its engine by itself, and a broken one changes nothing', async () => {
  await using bundles = await s3Server();
  await bundles.put(
    await bundleOf({
      'app/authz.rego': 'package app.authz\nimport rego.v1\nallow if data.users[input.user]',
      'old/old.rego': 'package old\nimport rego.v1\nx := 1',
      'users/data.json': '{"ann":true}',
    }),
  );
  await using server = await startServer(
    api(bundles.url, {
      POLICY_BUNDLE_SERVER_TYPE: 'AWS-S3',
      POLICY_BUNDLE_SERVER_TOKEN_ID: S3_KEYS.accessKeyId,
      POLICY_BUNDLE_SERVER_TOKEN: S3_KEYS.secretAccessKey,
      POLICY_BUNDLE_SERVER_AWS_REGION: bundles.region,
    }),
  );
  await using client = await startClient({ serverUrl: server.url });
  await client.answers('/app/authz/allow', { user: 'ann' }, true);
  await client.answers('/old/x', {}, 1);

  await bundles.put(
    await bundleOf({
      'app/authz.rego': 'package app.authz\nimport rego.v1\nallow if data.users[input.user]',
      'users/data.json': '{"bob":true}',
    }),
  );
  await client.answers('/app/authz/allow', { user: 'bob' }, true);
  await client.answers('/app/authz/allow', { user: 'ann' }, undefined);
  await client.answers('/old/x', {}, undefined);

  const head = await servedHead(server.url);
  await bundles.put(await tarGz([{ name: 'users/data.json', type: 'symlink', linkname: '/etc/passwd' }]));
  await policyHealth(
    server.url,
    'the refusal',
    (policy) =>
      field(policy, 'state') === 'failing' &&
      field(policy, 'head') === head &&
      /"users\/data\.json" is a symlink/.test(String(field(policy, 'error'))),
  );
  assert.equal(await client.query('/app/authz/allow', { user: 'bob' }), true);
});

test('a new bundle is announced to subscribers of its directories and served as a delta', async () => {
  await using bundles = await bundleHttpServer({ etags: 'none' });
  await bundles.put(await bundleOf({ 'a/a.rego': 'package a\n', 'b/b.rego': 'package b\n' }));
  await using server = await startServer(api(bundles.url));
  const first = await servedHead(server.url);
  await using peer = await startPeer(server.url, { 'x-sync-protocol': '1' });
  await peer.call('subscribe', { topics: ['default:policy:a'] });
  await bundles.put(await bundleOf({ 'a/a.rego': 'package a\nx := 1\n', 'b/b.rego': 'package b\n' }));
  const [second] = await peer.notified(1);
  const delta = await request(`${server.url}/policy?base_hash=${first}`);
  assert.deepEqual(
    [field(delta.json, 'old_hash'), field(delta.json, 'hash'), field(delta.json, 'manifest')],
    [first, second, ['a/a.rego']],
  );
  const complete = await request(`${server.url}/policy`);
  assert.deepEqual(field(complete.json, 'manifest'), ['a/a.rego', 'b/b.rego']);
});

test('without polling the webhook has the bundle server looked at', async () => {
  await using bundles = await bundleHttpServer();
  await bundles.put(await bundleOf({ 'a.rego': 'package a\n' }));
  await using server = await startServer(api(bundles.url, { SYNC_POLICY_REPO_POLLING_INTERVAL: '0' }));
  const first = await servedHead(server.url);
  await bundles.put(await bundleOf({ 'a.rego': 'package a\nx := 1\n' }));
  assert.equal((await postJson(`${server.url}/webhook`, {})).status, 200);
  await policyHealth(server.url, 'the new bundle', (policy) => field(policy, 'head') !== first);
});

test('a restart serves the last bundle while the bundle server is away, and the log tells no secret', async () => {
  await using dir = await tempDir();
  const lines: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
  const bundles = await bundleHttpServer({ token: 's3cret-token' });
  await bundles.put(await bundleOf({ 'a.rego': 'package a\n' }));
  const env = api(`${bundles.url}?`, { SYNC_POLICY_BUNDLE_SERVER_TOKEN: 's3cret-token' });
  const stateDir = join(dir.path, 'state');
  let head: string;
  {
    await using server = await startServer(env, { stateDir, log });
    head = await servedHead(server.url);
  }
  await bundles[Symbol.asyncDispose]();
  await using server = await startServer(
    { ...env, SYNC_POLICY_BUNDLE_URL: `${bundles.url}?sig=s3cret-query` },
    { stateDir, log },
  );
  assert.equal(await servedHead(server.url), head);
  const complete = await request(`${server.url}/policy`);
  assert.deepEqual([complete.status, field(complete.json, 'manifest')], [200, ['a.rego']]);
  await policyHealth(server.url, 'the failing look', (policy) => field(policy, 'state') === 'failing');
  assert(lines.some((line) => line.includes('bundle_server_failed')));
  assert.doesNotMatch(lines.join(''), /s3cret/);
  assert.doesNotMatch((await request(`${server.url}/healthcheck`)).text, /s3cret/);
});

test('settings of a bundle source that do not fit together keep the server from starting', async () => {
  const s3 = { SYNC_POLICY_BUNDLE_URL: 'http://127.0.0.1:1/b', POLICY_BUNDLE_SERVER_TYPE: 'AWS-S3' };
  for (const env of [
    {},
    s3,
    { ...s3, POLICY_BUNDLE_SERVER_TOKEN: 'k' },
    { ...s3, POLICY_BUNDLE_SERVER_TOKEN_ID: 'i' },
  ]) {
    await assert.rejects(startServer({ SYNC_POLICY_SOURCE_TYPE: 'API', ...env }), { code: 'config_invalid' });
  }
});
