import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { bundleOf } from '../support/archive.js';
import { bundleHttpServer } from '../support/bundle-http-server.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { runHere } from '../support/run-here.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** A commit that does not compile never becomes the head (SYNC_POLICY_GATE). */

const GATE = { SYNC_POLICY_GATE: 'on' };
const GOOD = 'package app\n\nallow if input.user == "ann"\n';
/** Line 3 calls what is not there. */
const BAD = 'package app\n\nallow if nowhere(1)\n';
const PROBLEM = { message: 'does not compile: undefined function nowhere', file: 'app/a.rego', line: 3 };

/** Tells a server of a push until it says something of the commit: a busy machine may take longer than one answer waits. */
async function pushed(server: { url: string }, repo: GitRepo, hash: string): Promise<unknown> {
  const push = { ref: 'refs/heads/master', repository: { clone_url: repo.url } };
  const answered = await until(
    async () => {
      const { status, json } = await postJson(`${server.url}/webhook?wait=10`, push, { 'x-github-event': 'push' });
      assert.equal(status, 200);
      const { head } = await source(server);
      return (head === hash || field(json, 'refused', 'commit') === hash) && { json };
    },
    { withinMs: 20_000, what: 'the commit is judged' },
  );
  return answered.json;
}

/** What `/healthcheck` says of the policy source. */
async function source({ url }: { url: string }): Promise<Record<string, unknown>> {
  return field((await request(`${url}/healthcheck`)).json, 'policy') as Record<string, unknown>;
}

test('a broken commit is refused with file and line everywhere, nobody gets it, and the next one is judged by itself', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const good = await repo.commit({ 'app/a.rego': GOOD });
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const env = { ...GATE, SYNC_POLICY_REPO_URL: repo.url };
  const server = await startServer(env, { stateDir: join(dir.path, 'state'), log });
  try {
    const bad = await repo.commit({ 'app/a.rego': BAD, 'app/b.rego': 'package app\n\ndeny if {\n  nothing(1)\n}\n' });
    const error = `commit ${bad}: app/a.rego:3 ${PROBLEM.message} (and 1 more)`;
    const problems = [
      PROBLEM,
      { message: 'does not compile: undefined function nothing', file: 'app/b.rego', line: 4 },
    ];
    assert.deepEqual(field(await pushed(server, repo, bad), 'refused'), { commit: bad, error, problems });
    const { failing_since: _, ...told } = await source(server);
    assert.deepEqual(told, {
      ...{ state: 'failing', head: good, refused: bad, problems, error, code: 'policy_commit_refused' },
    });
    assert.equal(field((await request(`${server.url}/policy`)).json, 'hash'), good);
    const { stdout } = await runHere('policysync', ['status', '--server-url', server.url]);
    assert.match(stdout, /whose head \w+ is refused/);
    assert.match(
      stdout,
      /app\/a\.rego:3 does not compile: undefined function nowhere .*\nalso: app\/b\.rego:4 does not/,
    );
    const commits = field((await request(`${server.url}/policy/source`)).json, 'commits') as { state: string }[];
    assert.deepEqual(
      commits.map(({ state }) => state),
      ['refused', 'head'],
    );
    assert(
      lines.some(({ file, line, code }) => file === 'app/a.rego' && line === 3 && code === 'policy_commit_refused'),
    );
    await using client = await startClient({ serverUrl: server.url });
    await client.answers('/app/allow', { user: 'ann' }, true);

    const next = await repo.commit({ 'app/a.rego': GOOD, 'app/b.rego': null });
    assert.equal(field(await pushed(server, repo, next), 'refused'), undefined);
    assert.deepEqual(await source(server), { state: 'following', head: next, error: null });
    const worse = await repo.commit({ 'app/a.rego': BAD });
    assert.equal(field(await pushed(server, repo, worse), 'refused', 'commit'), worse);

    await server.stop();
    await using again = await startServer(env, { stateDir: server.stateDir });
    await until(async () => (await source(again)).refused === worse, { withinMs: 20_000, what: 'it is refused again' });
    assert.equal((await source(again)).head, next);
  } finally {
    await server.stop();
  }
});

test('a fresh server on a broken head serves nothing and says why; with warn it serves it and says so; with off it says nothing', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'app/a.rego': GOOD });
  const bad = await repo.commit({ 'app/a.rego': BAD });
  const start = (SYNC_POLICY_GATE: string) => startServer({ SYNC_POLICY_REPO_URL: repo.url, SYNC_POLICY_GATE });
  await using on = await start('on');
  const { status, json } = await request(`${on.url}/policy`);
  const detail = `policy repo is not ready: commit ${bad}: app/a.rego:3 ${PROBLEM.message}`;
  assert.deepEqual([status, field(json, 'detail')], [503, detail]);
  const ready = await request(`${on.url}/ready`);
  assert.deepEqual([ready.status, field(ready.json, 'reason')], [503, 'policy_refused']);
  const { state, head, refused } = await source(on);
  assert.deepEqual([state, head, refused], ['starting', null, bad]);

  await using warn = await start('warn');
  const noted = `app/a.rego:3 ${PROBLEM.message}`;
  assert.deepEqual(await source(warn), { state: 'following', head: bad, error: null, warnings: [noted] });
  await using off = await start('off');
  assert.deepEqual(await source(off), { state: 'following', head: bad, error: null });
});

test('an archive that does not compile is refused, and the former one is served, also after a restart', async () => {
  await using dir = await tempDir();
  await using bundles = await bundleHttpServer();
  await bundles.put(await bundleOf({ 'app/a.rego': GOOD }));
  const env = { ...GATE, SYNC_POLICY_SOURCE_TYPE: 'API', SYNC_POLICY_BUNDLE_URL: bundles.url };
  const more = { stateDir: join(dir.path, 'state') };
  const server = await startServer(env, more);
  try {
    const former = await until(async () => (await source(server)).head, {
      withinMs: 20_000,
      what: 'the first archive',
    });
    await bundles.put(await bundleOf({ 'app/a.rego': BAD }));
    const problems = await until(
      async () => field((await postJson(`${server.url}/webhook?wait=10`, {})).json, 'refused', 'problems'),
      { withinMs: 20_000, what: 'the archive is judged' },
    );
    assert.deepEqual(problems, [PROBLEM]);
    assert.equal((await source(server)).head, former);
    await server.stop();
    await using again = await startServer(env, more);
    await until(async () => (await source(again)).refused !== undefined, {
      withinMs: 20_000,
      what: 'it is refused again',
    });
    assert.equal(field((await request(`${again.url}/policy`)).json, 'hash'), former);
  } finally {
    await server.stop();
  }
});
