import assert from 'node:assert/strict';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { bundleOf } from '../support/archive.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { bundleHttpServer } from '../support/bundle-http-server.js';
import { cutCable } from '../support/cut-cable.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { baseEntries, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** What instances agree on beside data updates, over one of the backbones: all of them pass one suite of stores. */

const OURS = { headers: { 'x-sync-protocol': '2' } };
const redis = await backboneOffer('Redis');

function webhook(url: string, repo: GitRepo): Promise<unknown> {
  const push = { ref: 'refs/heads/master', repository: { clone_url: repo.url } };
  return postJson(`${url}/webhook`, push, { 'x-github-event': 'push' });
}

async function headOf(url: string): Promise<unknown> {
  return field((await request(`${url}/policy`, OURS)).json, 'hash');
}

async function serve(hash: string, ...servers: readonly { url: string }[]): Promise<void> {
  await until(async () => (await Promise.all(servers.map(({ url }) => headOf(url)))).every((found) => found === hash), {
    withinMs: 20_000,
    what: `all serve ${hash}`,
  });
}

// Each has a backbone and instances of its own, and most of its time is waiting.
describe('policy and base entries of several instances', { skip: redis.missing ?? false, concurrency: true }, () => {
  it('a branch that was moved back is followed by all, once it is certain; an embedded server follows at once', async () => {
    await using backbone = await redis.start();
    await using repo = await gitRepo();
    const first = await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    const second = await repo.commit({ 'a.rego': 'package a\n\nx := 2\n' });
    const env = { SYNC_POLICY_REPO_URL: repo.url };
    const shared = { ...env, SYNC_BROADCAST_URI: backbone.uri };
    await using one = await startServer(shared);
    await using other = await startServer(shared);
    await using alone = await startServer(env);
    await serve(second, one, other, alone);
    await repo.git('reset', '--quiet', '--hard', first);
    await Promise.all([one, alone].map(({ url }) => webhook(url, repo)));
    await serve(first, alone);
    const doubted = await until(
      async () => field((await request(`${one.url}/healthcheck`)).json, 'policy', 'doubted'),
      { withinMs: 20_000, what: 'the health says what is not believed yet' },
    );
    assert.deepEqual([doubted, await headOf(one.url)], [first, second]);
    await serve(first, one, other);
    await using newcomer = await startServer(shared);
    await serve(first, newcomer);
  });

  it('an instance that cannot get the commit of the others asks clients of ours to wait, until it can', async () => {
    await using backbone = await redis.start();
    await using repo = await gitRepo();
    await using dir = await tempDir();
    const first = await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    const shared = { SYNC_POLICY_REPO_URL: repo.url, SYNC_BROADCAST_URI: backbone.uri };
    const stateDir = join(dir.path, 'state');
    await using one = await startServer(shared);
    await serve(first, one);
    const before = await startServer(shared, { stateDir });
    await serve(first, before);
    await before.stop();
    const second = await repo.commit({ 'a.rego': 'package a\n\nx := 2\n' });
    await webhook(one.url, repo);
    await serve(second, one);

    // It has the first commit in its mirror, and its git does not get out any more.
    const away = `${repo.path}-away`;
    await rename(repo.path, away);
    await using behind = await startServer(shared, { stateDir });
    await until(async () => (await request(`${behind.url}/policy`)).status === 200, {
      withinMs: 20_000,
      what: 'it serves what it has to others',
    });
    const answer = await request(`${behind.url}/policy?base_hash=${second}`, OURS);
    assert.equal(answer.status, 503);
    assert.match(answer.text, /does not have the agreed commit yet/);
    assert(Number(answer.headers.get('retry-after')) > 0);
    const { json } = await request(`${behind.url}/healthcheck`);
    assert.deepEqual([field(json, 'policy', 'head'), field(json, 'policy', 'wanted')], [first, second]);
    await rename(away, repo.path);
    await serve(second, behind);
    await rm(away, { recursive: true, force: true });
  });

  it('a client whose instance loses the backbone is not taken back by another one that is behind', async () => {
    await using backbone = await redis.start();
    await using repo = await gitRepo();
    const first = await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    const shared = { SYNC_POLICY_REPO_URL: repo.url };
    await using line = await cutCable(`http://127.0.0.1:${backbone.port}`);
    const through = backbone.uri.replace(`:${backbone.port}`, `:${new URL(line.url).port}`);
    await using one = await startServer({ ...shared, SYNC_BROADCAST_URI: backbone.uri });
    await using other = await startServer({ ...shared, SYNC_BROADCAST_URI: through });
    await serve(first, one, other);
    await using cable = await cutCable(one.url);
    await using client = await startClient({ serverUrl: cable.url });
    await client.answers('/a/x', {}, 1);
    line.cut();
    await until(async () => field((await request(`${other.url}/healthcheck`)).json, 'status') === 'degraded', {
      withinMs: 20_000,
      what: 'the other one is cut off',
    });
    const second = await repo.commit({ 'a.rego': 'package a\n\nx := 2\n' });
    await webhook(one.url, repo);
    await client.answers('/a/x', {}, 2);
    cable.connectTo(other.url);
    cable.cut();
    cable.mend();
    const refused = (): boolean => client.log.some((line) => /answered 503 .*\/policy/.test(JSON.stringify(line)));
    await until(refused, { withinMs: 15_000, what: 'the client was asked to wait' });
    assert.equal(await client.query('/a/x', {}), 2);
    assert.equal((await client.health()).status, 200, 'and is well meanwhile');
    line.mend();
    await serve(second, other);
    await client.answers('/a/x', {}, 2);
  });

  it('a commit that one instance refuses no other serves: not one that hears of it, not one that comes later', async () => {
    await using backbone = await redis.start();
    await using repo = await gitRepo();
    const good = await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    const shared = { SYNC_POLICY_REPO_URL: repo.url, SYNC_BROADCAST_URI: backbone.uri, SYNC_POLICY_GATE: 'on' };
    await using one = await startServer(shared);
    await using other = await startServer(shared);
    await serve(good, one, other);
    const bad = await repo.commit({ 'a.rego': 'package a\n\nx := nowhere(1)\n' });
    await webhook(one.url, repo);
    const refuses = (url: string): Promise<unknown> =>
      until(async () => field((await request(`${url}/healthcheck`)).json, 'policy', 'refused') === bad, {
        withinMs: 20_000,
        what: `${url} refuses it`,
      });
    await Promise.all([one, other].map(({ url }) => refuses(url)));
    await using newcomer = await startServer(shared);
    await refuses(newcomer.url);
    await serve(good, one, other, newcomer);
    const next = await repo.commit({ 'a.rego': 'package a\n\nx := 2\n' });
    await webhook(other.url, repo);
    await serve(next, one, other, newcomer);
  });

  it('instances with a bundle server agree on archives; one that comes when an archive is gone takes the newer one', async () => {
    await using backbone = await redis.start();
    await using bundles = await bundleHttpServer();
    await using dir = await tempDir();
    const put = async (version: number): Promise<void> =>
      bundles.put(await bundleOf({ 'a.rego': `package a\n\nx := ${version}\n` }));
    const shared = {
      SYNC_BROADCAST_URI: backbone.uri,
      SYNC_POLICY_SOURCE_TYPE: 'API',
      SYNC_POLICY_BUNDLE_URL: bundles.url,
      SYNC_POLICY_REPO_POLLING_INTERVAL: '0.2',
    };
    const stateDir = join(dir.path, 'state');
    const next = async (before: unknown, ...servers: readonly { url: string }[]): Promise<unknown> =>
      until(
        async () => {
          const heads = await Promise.all(servers.map(({ url }) => headOf(url)));
          return heads.every((head) => head === heads[0]) && heads[0] !== undefined && heads[0] !== before && heads[0];
        },
        { withinMs: 20_000, what: 'all serve the same new archive' },
      );
    await put(1);
    const one = await startServer(shared);
    const other = await startServer(shared, { stateDir });
    const first = await next(undefined, one, other);
    await other.stop();
    await put(2);
    const second = await next(first, one);
    await one[Symbol.asyncDispose]();
    await put(3);
    await using back = await startServer(shared, { stateDir });
    await using fresh = await startServer(shared);
    const third = await next(second, back, fresh);
    assert.notEqual(third, first);
    // Whoever held an archive that neither of them ever saw goes on at once.
    const answer = await request(`${fresh.url}/policy?base_hash=${second}`, OURS);
    assert.deepEqual([answer.status, field(answer.json, 'hash')], [200, third]);
    // An archive that was served before is believed when the source goes on showing it.
    await put(2);
    await until(async () => field((await request(`${back.url}/healthcheck`)).json, 'policy', 'doubted') === second, {
      withinMs: 20_000,
      what: 'an earlier archive is doubted',
    });
    assert.equal(await headOf(back.url), third);
  });

  it('an instance with an older configuration takes the base entries of the newer one, and says so', async () => {
    await using backbone = await redis.start();
    const old = baseEntries({ url: 'http://127.0.0.1:9/x', dst_path: '/x' });
    const newer = baseEntries(
      { url: 'http://127.0.0.1:9/x', dst_path: '/x' },
      { url: 'http://127.0.0.1:9/y', dst_path: '/y' },
    );
    const shared = { SYNC_BROADCAST_URI: backbone.uri };
    await using one = await startServer({ ...shared, ...old });
    await using two = await startServer({ ...shared, ...newer });
    const state = async ({ url }: { url: string }): Promise<unknown[]> => {
      const [config, health] = await Promise.all([request(`${url}/data/config`, OURS), request(`${url}/healthcheck`)]);
      const entries = field(config.json, 'entries');
      const paths = Array.isArray(entries) ? entries.map((entry) => field(entry, 'dst_path')) : [];
      return [paths, field(health.json, 'update_log', 'config_differs') ?? false];
    };
    const is = (server: { url: string }, differs: boolean): Promise<unknown> =>
      until(async () => JSON.stringify(await state(server)) === JSON.stringify([['/x', '/y'], differs]), {
        withinMs: 20_000,
        what: `it serves both entries, and says ${differs}`,
      });
    await Promise.all([is(one, true), is(two, false)]);
    // As when an orchestrator replaces an instance that has not been updated yet.
    await using third = await startServer({ ...shared, ...old });
    await is(third, true);
    await using updated = await startServer({ ...shared, ...newer });
    await is(updated, false);
    await is(two, false);
  });
});
