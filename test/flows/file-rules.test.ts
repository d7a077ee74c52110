import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { pino } from 'pino';
import type { Logger } from '../../src/lib/observe/log.js';
import { announced, byWebhook } from '../support/announced.js';
import { type FileContent, type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { publish, type StartedClient, startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** The specification "Policy bundle rules", from a real repository to a real engine. */

type Files = Readonly<Record<string, FileContent>>;

/** A repository, a server that follows it, and a client with an engine. */
interface Chain extends AsyncDisposable {
  readonly repo: GitRepo;
  readonly server: StartedServer;
  readonly client: StartedClient;
  /** Commits and waits until the client holds it; gives the hash. */
  commit(files: Files): Promise<string>;
  /** {@link Chain.commit} of these files in place of all that there are. */
  replace(files: Files): Promise<string>;
  /** Messages of the server's log. */
  readonly logged: readonly string[];
}

/** A log that keeps the messages of warnings. */
function warnings(): { logged: readonly string[]; log: Logger } {
  const logged: string[] = [];
  const write = (line: string): void => void logged.push(String(field(JSON.parse(line), 'msg')));
  return { logged, log: pino({ level: 'warn' }, { write }) };
}

/** Paths of the complete bundle, in load order. */
async function manifestOf(server: StartedServer): Promise<unknown> {
  return field((await request(`${server.url}/policy?path=.`)).json, 'manifest');
}

async function startChain(
  files: Files,
  more: { server?: Record<string, string>; client?: Record<string, string>; engineUrl?: string } = {},
): Promise<Chain> {
  const repo = await gitRepo();
  await repo.commit(files);
  const { logged, log } = warnings();
  const server = await startServer({ ...byWebhook(repo), ...more.server }, { log });
  const engine = more.engineUrl === undefined ? {} : { engineUrl: more.engineUrl };
  const client = await startClient({ serverUrl: server.url, env: more.client ?? {}, ...engine });
  await client.healthy();
  const commit = async (changes: Files): Promise<string> => {
    const hash = await announced(server, repo, changes);
    await client.tells(`it holds ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
    return hash;
  };
  return {
    repo,
    server,
    client,
    logged,
    commit,
    replace: async (others) => {
      await repo.git('rm', '-r', '--quiet', '.');
      return commit(others);
    },
    [Symbol.asyncDispose]: async () => {
      await client[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      await repo[Symbol.asyncDispose]();
    },
  };
}

/** What is there in the beginning. */
const FILES = {
  'a/data.json': '{"from":"data.json"}',
  'b/users_data.json': '{"from":"users_data.json"}',
  'c/mydata.json': '{"from":"mydata.json"}',
  'd/data.json.bak': '{}',
  'd/data-json': '{}',
  'd/other.json': '{"not":"loaded"}',
  'e/data.JSON': '{"not":"loaded"}',
  'f/data.json/data.json': '{"in":"a folder of that name"}',
  'x/1_data.json': '{"n":1,"only_in_1":true}',
  'x/2_data.json': '{"n":2}',
  'x/data.json': '{"n":3,"only_in_3":true}',
  'x/below/data.json': '{"kept":true}',
  'data.json': '{"root":1}',
  'audit/cfg/data.json': '{"kept":true}',
  'zone/data.json': '{"z":1}',
};

describe('one repository, server and client', () => {
  let chain: Chain;
  before(async () => {
    chain = await startChain(FILES);
  });
  after(() => chain?.[Symbol.asyncDispose]());

  it('every file whose name ends with data.json is loaded at its folder, other JSON files are not', async () => {
    await chain.client.holds('/a', { from: 'data.json' });
    assert.deepEqual(await chain.client.data('/b'), { from: 'users_data.json' });
    assert.deepEqual(await chain.client.data('/c'), { from: 'mydata.json' });
    for (const path of ['/d', '/e']) assert.equal(await chain.client.data(path), undefined, path);
    assert.deepEqual(await chain.client.data('/f'), { 'data.json': { in: 'a folder of that name' } });
  });

  it('of several data files in one folder the last one replaces the others, and the server warns', async () => {
    // Replaced, never merged; what lies in subfolders is loaded after them.
    await chain.client.holds('/x', { n: 3, only_in_3: true, below: { kept: true } });
    const warned = (text: string): boolean => chain.logged.some((line) => line.includes(text));
    assert(warned('x/1_data.json is replaced by x/2_data.json'), chain.logged.join('\n'));
    assert(warned('x/2_data.json is replaced by x/data.json'), chain.logged.join('\n'));
    await chain.commit({ 'x/data.json': null });
    await chain.client.holds('/x', { n: 2, below: { kept: true } });
    await chain.commit({ 'x/1_data.json': null });
  });

  it('data at the root and data below stand side by side; a manifest that makes the root replace it is warned of', async () => {
    await chain.client.holds('/audit', { cfg: { kept: true } });
    await chain.client.holds('/root', 1);
    // By a delta that brings the root anew, too.
    await chain.commit({ 'data.json': '{"root":2}' });
    await chain.client.holds('/root', 2);
    assert.deepEqual(await chain.client.data('/audit'), { cfg: { kept: true } });
    const told = async (): Promise<unknown> =>
      field((await request(`${chain.server.url}/healthcheck`)).json, 'policy', 'warnings');
    assert.equal(await told(), undefined);

    await chain.commit({ '.manifest': 'audit/cfg/data.json\ndata.json\n' });
    await until(async () => (await chain.client.data('/audit')) === undefined, { withinMs: 20_000, what: 'the order' });
    const said = 'audit/cfg/data.json is replaced by data.json, which the manifest loads later at a path above';
    assert(
      chain.logged.some((line) => line.includes(said)),
      chain.logged.join('\n'),
    );
    assert.match(JSON.stringify(await told()), new RegExp(said));
    assert.match(
      JSON.stringify(field((await request(`${chain.server.url}/clients`)).json, 'policy_source')),
      new RegExp(said),
    );
    await chain.commit({ '.manifest': 'data.json\n' });
    await chain.client.holds('/audit', { cfg: { kept: true } });
    assert.equal(await told(), undefined);
  });

  it('a changed .manifest alone is a change: it is announced and changes what the engine holds', async () => {
    await chain.replace({
      'x/a_data.json': '{"from":"a"}',
      'x/b_data.json': '{"from":"b"}',
      'y/y.rego': 'package y\n',
    });
    await chain.client.holds('/x', { from: 'b' });
    await using peer = await startPeer(chain.server.url, { 'x-sync-protocol': '1' });
    await peer.call('subscribe', { topics: ['default:policy:x', 'default:policy:y'] });

    const added = await chain.commit({ '.manifest': 'x/b_data.json\nx/a_data.json\n' });
    await chain.client.holds('/x', { from: 'a' });
    assert.deepEqual(await peer.notified(1), [added]);
    assert.deepEqual(await manifestOf(chain.server), ['x/b_data.json', 'x/a_data.json', 'y/y.rego']);
    const reordered = await chain.commit({ '.manifest': 'x/a_data.json\nx/b_data.json\n' });
    await chain.client.holds('/x', { from: 'b' });
    assert.deepEqual(await peer.notified(2), [added, reordered]);
    await chain.commit({ '.manifest': 'x/b_data.json\nx/a_data.json\n' });
    await chain.client.holds('/x', { from: 'a' });
    await chain.commit({ '.manifest': null });
    await chain.client.holds('/x', { from: 'b' });
  });

  it('a root manifest that names folders loads theirs, recursively, and what none lists comes after', async () => {
    await chain.replace({
      '.manifest': 'z\na.rego\nmissing.rego\n/etc/passwd\n../up.rego\n',
      'z/.manifest': 'deep\nlast.rego\n',
      'z/deep/.manifest': 'b.rego\na.rego\n',
      'z/deep/a.rego': 'package z.deep.a\n',
      'z/deep/b.rego': 'package z.deep.b\n\nx := 1\n',
      'z/last.rego': 'package z.last\n',
      'z/unlisted.rego': 'package z.unlisted\n',
      'a.rego': 'package a\n\nx := data.z.deep.b.x\n',
    });
    assert.deepEqual(await manifestOf(chain.server), [
      'z/deep/b.rego',
      'z/deep/a.rego',
      'z/last.rego',
      'a.rego',
      'z/unlisted.rego',
    ]);
    await chain.client.answers('/a/x', {}, 1);
    for (const skipped of ['"missing.rego" does not exist', '"/etc/passwd" is absolute', '"../up.rego" lies outside']) {
      assert(
        chain.logged.some((line) => line.includes(skipped)),
        `${skipped}: ${chain.logged.join('\n')}`,
      );
    }
  });

  it('without a manifest the files of a folder load before its subfolders, as git lists them', async () => {
    await chain.replace({
      'B.rego': 'package b1\n',
      'a.rego': 'package a1\n',
      'a/a.rego': 'package a2\n',
      'a-b/a.rego': 'package a3\n',
      'a0.rego': 'package a4\n',
      'a/\u00e9.rego': 'package a5\n',
      'a/z.rego': 'package a6\n',
      'a/\ufb00.rego': 'package a7\n',
      'a/\u{1f600}.rego': 'package a8\n',
    });
    assert.deepEqual(await manifestOf(chain.server), [
      'B.rego',
      'a.rego',
      'a0.rego',
      'a-b/a.rego',
      'a/a.rego',
      'a/z.rego',
      'a/\u00e9.rego',
      'a/\ufb00.rego',
      'a/\u{1f600}.rego',
    ]);
  });

  it('a rename over the border of the subscribed directories leaks nothing and leaves nothing behind', async () => {
    const base = await chain.replace({
      'mine/m.rego': 'package mine.m\n\nx := 1\n',
      'mine/leaving.rego': 'package mine.leaving\n\nx := 1\n',
      'mine/l/data.json': '{"leaving":true}',
      'other/coming.rego': 'package mine.coming\n\nx := 1\n',
      'other/secret.rego': 'package other.secret\n\nx := 1\n',
      'other/s/data.json': '{"secret":true}',
    });
    const env = { SYNC_POLICY_SUBSCRIPTION_DIRS: 'mine' };
    await using client = await startClient({ serverUrl: chain.server.url, env });
    await client.healthy();
    await chain.repo.git('mv', 'mine/leaving.rego', 'other/left.rego');
    await chain.repo.git('mv', 'mine/l', 'other/l');
    await chain.repo.git('mv', 'other/coming.rego', 'mine/came.rego');
    // Renames that begin and end elsewhere, and one by content alone: the same bytes as a file outside.
    await chain.repo.git('mv', 'other/secret.rego', 'other/secret2.rego');
    await chain.commit({ 'mine/copy.rego': 'package mine.copy\n\nx := 1\n' });
    await client.holds('/mine', { m: { x: 1 }, coming: { x: 1 }, copy: { x: 1 } });
    for (const path of ['/other', '/mine/leaving', '/mine/l', '/l']) {
      assert.equal(await client.data(path), undefined, path);
    }
    const delta = await request(`${chain.server.url}/policy?path=mine&base_hash=${base}`);
    assert.doesNotMatch(delta.text, /other|secret|left/);
    assert.deepEqual(field(delta.json, 'deleted_files', 'policy_modules'), ['mine/leaving.rego']);
  });

  it('a module that is listed before the one that it imports does not break the engine (inline)', () =>
    importsLater(chain));

  it('a commit with a broken file is refused by name, the last good one stays everywhere, and a repair is applied', async () => {
    await chain.replace({ 'a.rego': 'package a\n\nx := 1\n', 's/data.json': '{"s":1}' });
    const good = field((await request(`${chain.server.url}/healthcheck`)).json, 'policy', 'head');
    const broken: readonly [file: string, content: FileContent, says: RegExp][] = [
      ['a.rego', Buffer.from([0x70, 0xff, 0xfe]), /a\.rego:1 is not UTF-8/],
      ['s/data.json', '{\n"s":2,}', /s\/data\.json:2 is not valid JSON/],
      ['s/x_data.json', '{"s":', /s\/x_data\.json:1 is not valid JSON/],
      ['data.json', '[]', /data\.json must be a JSON object/],
      ['s/data.json', Buffer.from('{"s":"\xff"}', 'latin1'), /s\/data\.json:1 is not UTF-8/],
    ];
    for (const [file, content, says] of broken) {
      const before = await chain.repo.git('rev-parse', 'HEAD');
      await announced(chain.server, chain.repo, { [file]: content, 'a_new.rego': 'package anew\n\nx := 1\n' });
      await until(
        async () => {
          const { json } = await request(`${chain.server.url}/healthcheck`);
          return says.test(String(field(json, 'policy', 'error'))) && field(json, 'policy', 'head') === good;
        },
        { withinMs: 15_000, what: `${says} is told` },
      );
      assert.equal(field((await request(`${chain.server.url}/policy`)).json, 'hash'), good);
      await publish(chain.server.url, { dst_path: '/mark', data: file });
      await chain.client.holds('/mark', file);
      assert.equal(await chain.client.query('/a/x'), 1);
      assert.deepEqual(await chain.client.data('/s'), { s: 1 });
      assert.equal(await chain.client.data('/anew'), undefined);
      await chain.repo.git('reset', '--quiet', '--hard', before);
    }
    await chain.commit({ 'a.rego': 'package a\n\nx := 2\n', 's/data.json': '{"s":2}' });
    await chain.client.answers('/a/x', {}, 2);
    assert.deepEqual(await chain.client.data('/s'), { s: 2 });
  });
});

describe('one client with an external engine', () => {
  let opa: TestOpa;
  let chain: Chain;
  before(async () => {
    opa = await startOpa();
    chain = await startChain({ 'first.rego': 'package first\n' }, { engineUrl: opa.url });
  });
  after(async () => {
    await chain?.[Symbol.asyncDispose]();
    await opa?.[Symbol.asyncDispose]();
  });

  it('a module that is listed before the one that it imports does not break the engine (external)', () =>
    importsLater(chain));

  it('a deletion of what is gone already succeeds, and later commits are applied', async () => {
    await chain.replace({
      'a.rego': 'package a\n\nx := 1\n',
      'gone.rego': 'package gone\n\nx := 1\n',
      's/data.json': '{"s":1}',
      's/t/data.json': '{"t":1}',
    });
    const { policies } = await policiesOf(chain.client.engineUrl);
    const id = policies.find((one) => one.includes('gone.rego'));
    assert(id !== undefined, policies.join());
    for (const path of [`/v1/policies/${id}`, '/v1/data/s/t']) {
      assert((await request(`${chain.client.engineUrl}${path}`, { method: 'DELETE' })).status < 300, path);
    }
    await chain.commit({ 'gone.rego': null, 's/t/data.json': null });
    assert.deepEqual(await chain.client.data('/s'), { s: 1 });
    await chain.commit({ 'a.rego': 'package a\n\nx := 2\n' });
    await chain.client.answers('/a/x', {}, 2);
    await chain.client.healthy();
  });
});

/** Holds a module that is listed before the one that it imports, and then, by a delta, another pair of this kind. */
async function importsLater(chain: Chain): Promise<void> {
  await chain.replace({
    '.manifest': 'a.rego\nb.rego\n',
    'a.rego': 'package a\n\nimport data.b\n\nx := b.f(b.y)\n',
    'b.rego': 'package b\n\ny := 20\n\nf(n) := n + 1\n',
  });
  await chain.client.answers('/a/x', {}, 21);
  // By a delta too: a new importer of a new module, and one module less at the same time.
  await chain.commit({
    '.manifest': '0.rego\n1.rego\n',
    '0.rego': 'package zero\n\nimport data.one\n\nx := one.g(1)\n',
    '1.rego': 'package one\n\ng(n) := n * 3\n',
    'a.rego': null,
    'b.rego': null,
  });
  await chain.client.answers('/zero/x', {}, 3);
  assert.equal(await chain.client.data('/a'), undefined);
  assert.equal(await chain.client.data('/b'), undefined);
  await chain.client.healthy();
}

async function policiesOf(engineUrl: string): Promise<{ policies: string[] }> {
  const result = field((await request(`${engineUrl}/v1/policies`)).json, 'result');
  assert(Array.isArray(result));
  return { policies: result.map((policy) => String(field(policy, 'id'))) };
}

describe('a server or a client with settings of its own', () => {
  it('nested manifests, a manifest file of another name and a manifest in another folder give the order', async () => {
    const files = {
      'p/.manifest': 'q\nb_data.json\na_data.json\n',
      'p/a_data.json': '{"from":"p/a"}',
      'p/b_data.json': '{"from":"p/b"}',
      'p/q/.manifest': 'b_data.json\na_data.json\n',
      'p/q/a_data.json': '{"from":"q/a"}',
      'p/q/b_data.json': '{"from":"q/b"}',
      'r/order.txt': 'b_data.json\na_data.json\n../p/a_data.json\n',
      'r/a_data.json': '{"from":"r/a"}',
      'r/b_data.json': '{"from":"r/b"}',
    };
    const p = ['p/a_data.json', 'p/b_data.json', 'p/q/a_data.json', 'p/q/b_data.json'];
    const r = ['r/a_data.json', 'r/b_data.json'];
    const ordered = ['p/q/b_data.json', 'p/q/a_data.json', 'p/b_data.json', 'p/a_data.json'];
    const cases: Readonly<Record<string, readonly string[]>> = {
      '': [...p, ...r],
      p: [...ordered, ...r],
      './p/.manifest': [...ordered, ...r],
      'r/order.txt': ['r/b_data.json', 'r/a_data.json', ...p],
    };
    await using repo = await gitRepo();
    await repo.commit(files);
    await using opa = await startOpa();
    for (const [path, expected] of Object.entries(cases)) {
      const { logged, log } = warnings();
      const env = { ...byWebhook(repo), SYNC_POLICY_REPO_MANIFEST_PATH: path };
      await using server = await startServer(env, { log });
      await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url });
      assert.deepEqual(await manifestOf(server), expected, path);
      await client.healthy();
      await client.holds('/r', { from: path.startsWith('r') ? 'r/a' : 'r/b' });
      const isOrdered = path !== '' && !path.startsWith('r');
      await client.holds('/p/from', isOrdered ? 'p/a' : 'p/b');
      if (path.startsWith('r')) assert(logged.some((line) => line.includes('"../p/a_data.json" lies outside')));
    }
  });

  it('SYNC_BUNDLE_IGNORE leaves out what its globs match, and a change there reaches nobody', async () => {
    await using chain = await startChain(
      {
        'a.rego': 'package a\n',
        'tests/t.rego': 'package tests.t\n',
        'tests/deep/er/t.rego': 'package tests.deep\n',
        'lib/skip_test.rego': 'package lib.skip\n',
        'lib/keep.rego': 'package lib.keep\n',
        'x/y/z/q.rego': 'package xyzq\n',
        'x/q.rego': 'package xq\n',
        'drafts/data.json': 'not JSON at all',
        'n/1data.json': '{"n":1}',
        'n/9data.json': '{"n":9}',
      },
      { server: { SYNC_BUNDLE_IGNORE: 'tests/**,*_test.rego,x/**/q.rego,drafts/*,n/[5-9]*' } },
    );
    // `x/**/q.rego` has three segments, and ** is no more than *: x/q.rego has two, x/y/z/q.rego ends in y/z/q.rego.
    assert.deepEqual(await manifestOf(chain.server), [
      'a.rego',
      'lib/keep.rego',
      'n/1data.json',
      'x/q.rego',
      'x/y/z/q.rego',
    ]);
    await chain.client.holds('/n', { n: 1 });
    assert.equal(await chain.client.data('/drafts'), undefined);
    await using peer = await startPeer(chain.server.url, { 'x-sync-protocol': '1' });
    await peer.call('subscribe', { topics: ['default:policy:.', 'default:policy:tests'] });
    await announced(chain.server, chain.repo, { 'tests/t.rego': 'package tests.t\n\nx := 1\n' });
    const second = await chain.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    assert.deepEqual(await peer.notified(1), [second]);
  });
});
