import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import type { FastifyInstance } from 'fastify';
import { createHttpApp } from '../../src/http/app.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { PolicyBundles } from '../../src/server/policy/bundle/policy-bundles.js';
import { createSnapshots } from '../../src/server/policy/bundle/snapshot.js';
import { policyRoutes } from '../../src/server/routes/policy.js';
import type { PolicyBundle } from '../../src/wire/bundle.js';
import { applyBundle } from '../support/apply-bundle.js';
import { type FileContent, type GitRepo, gitRepoAt, runGit } from '../support/git-repo.js';
import { type PolicyPart, startPolicyPart } from '../support/policy-part.js';
import { tempDir } from '../support/temp-dir.js';

/** A followed repository and the route in front of it. */
interface Started extends AsyncDisposable {
  part: PolicyPart;
  app: FastifyInstance;
  repo: Omit<GitRepo, typeof Symbol.asyncDispose>;
  /** Commits, has it looked at, answers the hash. */
  commit(files: Record<string, FileContent>): Promise<string>;
  where: { url: string; clonePath: string };
}

async function start(
  files: Record<string, FileContent>,
  settings: { manifestPath?: string; ignore?: readonly string[] } = {},
): Promise<Started> {
  const dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'repo'));
  const head = await repo.commit(files);
  const where = { url: repo.url, clonePath: join(dir.path, 'mirror') };
  const part = startPolicyPart({ ...where, ...settings });
  await part.serves(head);
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  policyRoutes(app, part);
  return {
    part,
    app,
    repo,
    where,
    commit: async (changes) => {
      const hash = await repo.commit(changes);
      await part.tracker.refresh();
      return hash;
    },
    [Symbol.asyncDispose]: async () => {
      await app.close();
      await part[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

test('GET /policy answers the documented shape, member by member', async () => {
  await using server = await start({
    'zdir/b.rego': 'package b\n',
    'a.rego': 'package a\n',
    'data.json': '{"root":2}\n',
    'n/data.json': '{"n":1}\n',
    '.manifest': 'zdir/b.rego\na.rego\n',
  });
  const answer = await server.app.inject('/policy?path=.');
  assert.equal(answer.statusCode, 200);
  assert.match(answer.headers['content-type'] as string, /^application\/json/);
  assert.equal(
    answer.body,
    `{"manifest":["zdir/b.rego","a.rego","data.json","n/data.json"],"hash":"${server.part.tracker.head()}","old_hash":null,` +
      '"data_modules":[{"path":".","data":"{\\"root\\":2}\\n"},{"path":"n","data":"{\\"n\\":1}\\n"}],' +
      '"policy_modules":[{"path":"zdir/b.rego","package_name":"b","rego":"package b\\n"},' +
      '{"path":"a.rego","package_name":"a","rego":"package a\\n"}],"deleted_files":null}',
  );
});

test('GET /policy answers 503 with Retry-After until the first commit is there', async () => {
  await using dir = await tempDir();
  await using part = startPolicyPart({ url: join(dir.path, 'nowhere'), clonePath: join(dir.path, 'mirror') });
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  policyRoutes(app, part);
  const answer = await app.inject('/policy');
  assert.deepEqual([answer.statusCode, answer.headers['retry-after']], [503, '2']);
  assert.deepEqual(
    [answer.json(), answer.headers['x-sync-error']],
    [{ detail: 'policy repo is not ready' }, 'policy_not_ready'],
  );
  await app.close();
});

test('directories are read as people write them; unknown ones are 404, other parameters mean nothing', async () => {
  await using server = await start({ 'a/x.rego': '1', 'a/s/y.rego': '2', 'b/z.rego': '3', 'c/other.txt': 'x' });
  const manifest = async (url: string): Promise<unknown> => {
    const answer = await server.app.inject(url);
    return answer.statusCode === 200 ? answer.json().manifest : [answer.statusCode, answer.json()];
  };
  assert.deepEqual(await manifest('/policy'), ['a/x.rego', 'a/s/y.rego', 'b/z.rego']);
  for (const path of ['a', '/a', 'a/', './a']) {
    assert.deepEqual(await manifest(`/policy?path=${path}&x=1&x=2`), ['a/x.rego', 'a/s/y.rego'], path);
  }
  assert.deepEqual(await manifest('/policy?path=b&path=a/s&path=b'), ['a/s/y.rego', 'b/z.rego']);
  assert.deepEqual(await manifest('/policy?path=c'), []);
  for (const path of ['nope', 'a/x.rego', '../repo', 'a/..']) {
    assert.deepEqual(await manifest(`/policy?path=${encodeURIComponent(path)}&path=b`), [
      404,
      { detail: `requested path ${path} was not found in the policy repo!` },
    ]);
  }
});

test('a caller that has the bundle is answered 304, and gzip is the same bundle', async () => {
  await using server = await start({ 'a.rego': `package a\n# ${'x'.repeat(4_000)}\n` });
  const plain = await server.app.inject('/policy');
  const zipped = await server.app.inject({ url: '/policy', headers: { 'accept-encoding': 'deflate, gzip;q=0.5' } });
  assert.equal(plain.headers['content-encoding'], undefined);
  assert.equal(zipped.headers['content-encoding'], 'gzip');
  assert.equal(gunzipSync(zipped.rawPayload).toString('utf8'), plain.body);
  assert.notEqual(plain.headers.etag, zipped.headers.etag);
  const refused = await server.app.inject({ url: '/policy', headers: { 'accept-encoding': 'gzip;q=0, *' } });
  assert.equal(refused.headers['content-encoding'], undefined);
  for (const tag of [plain.headers.etag, `W/${zipped.headers.etag}`, `"x", ${plain.headers.etag}`, '*']) {
    const again = await server.app.inject({ url: '/policy', headers: { 'if-none-match': String(tag) } });
    assert.deepEqual([again.statusCode, again.body], [304, ''], String(tag));
  }
  await server.commit({ 'b.rego': 'package b' });
  const changed = await server.app.inject({ url: '/policy', headers: { 'if-none-match': String(plain.headers.etag) } });
  assert.equal(changed.statusCode, 200);
});

test('a bundle is compressed once, for the first caller that takes it so', async () => {
  await using server = await start({ 'a.rego': `package a\n# ${'x'.repeat(4_000)}\n` });
  const bundle = await server.part.bundles.get({ directories: [] });
  assert.equal(bundle.size, bundle.json.length, 'nobody asked for it yet');
  const answers = await Promise.all(Array.from({ length: 20 }, () => bundle.gzip()));
  assert.equal(new Set(answers).size, 1);
  assert.equal(bundle.size, bundle.json.length + (answers[0]?.length ?? 0));
  const { etag } = (await server.app.inject({ url: '/policy', headers: { 'accept-encoding': 'gzip' } })).headers;
  const headers = { 'accept-encoding': 'gzip', 'if-none-match': String(etag) };
  const again = await server.app.inject({ url: '/policy', headers });
  assert.deepEqual([again.statusCode, again.headers.etag], [304, etag]);
});

test('the delta to a new commit is made of what its review has read', async () => {
  await using server = await start({ 'a.rego': 'package a', 'b.rego': 'package b' });
  const base = server.part.tracker.head();
  await server.commit({ 'a.rego': 'package a.changed' });
  await rm(join(server.where.clonePath, 'objects'), { recursive: true });
  const delta = (await server.app.inject(`/policy?base_hash=${base}`)).json<PolicyBundle>();
  assert.deepEqual([delta.old_hash, delta.policy_modules.map(({ rego }) => rego)], [base, ['package a.changed']]);
  await assert.rejects(server.part.bundles.get({ directories: [] }), { code: 'git_failed' }, 'the rest is not kept');
});

test('a delta from each kind of base', async () => {
  await using server = await start({ 'a.rego': '1', 'd/data.json': '{}' });
  const base = server.part.tracker.head() ?? '';
  const head = await server.commit({ 'a.rego': '2', 'b.rego': '3', 'd/data.json': null });
  const ask = async (query: string): Promise<Record<string, unknown>> => {
    const answer = await server.app.inject(`/policy?${query}`);
    assert.equal(answer.statusCode, 200, query);
    return answer.json();
  };
  const delta = await ask(`base_hash=${base}`);
  assert.deepEqual([delta.hash, delta.old_hash, delta.manifest], [head, base, ['a.rego', 'b.rego']]);
  assert.deepEqual(delta.deleted_files, { data_modules: ['d'], policy_modules: [] });
  const same = await ask(`base_hash=${head}`);
  assert.deepEqual(
    [same.hash, same.old_hash, same.manifest, same.data_modules, same.policy_modules, same.deleted_files],
    [head, head, [], [], [], null],
  );
  assert.equal((await ask(`base_hash=${base.toUpperCase()}`)).old_hash, base);
  const tree = await server.repo.git('rev-parse', `${base}^{tree}`);
  const unknown = [
    '',
    '0'.repeat(40),
    'f'.repeat(40),
    'abc123',
    base.slice(0, 12),
    'HEAD~1',
    'master',
    '--help',
    tree,
    'a%0Ab',
  ];
  for (const text of unknown) {
    const complete = await ask(`base_hash=${text}`);
    assert.deepEqual([complete.old_hash, complete.manifest], [null, ['a.rego', 'b.rego']], text);
  }
  assert.equal((await ask(`base_hash=x&base_hash=${base}`)).old_hash, base);
});

test('a commit that only changes the manifest reaches clients, complete and in the new order', async () => {
  await using server = await start({ '.manifest': 'b.rego\nx\n', 'a.rego': '1', 'b.rego': '2', 'x/c.rego': '3' });
  const base = server.part.tracker.head() ?? '';
  const head = await server.commit({ '.manifest': 'x\nb.rego\n', 'x/.manifest': 'c.rego\n' });
  assert.deepEqual(server.part.changes.at(-1), { oldHash: base, hash: head, changedDirectories: ['.', 'x'] });
  const bundle = await server.part.bundle([], base);
  assert.deepEqual([bundle.old_hash, bundle.manifest], [null, ['x/c.rego', 'b.rego', 'a.rego']]);
});

test('links and submodules are no files: nothing outside is read, and a module that turns into one is deleted', async () => {
  await using server = await start({ 'a.rego': 'package a', 'b.rego': 'package b', 'secret.txt': 'secret' });
  const base = server.part.tracker.head() ?? '';
  await server.repo.git('update-index', '--add', '--cacheinfo', `160000,${base},sub.rego`);
  await server.repo.git('commit', '--quiet', '--message=submodule');
  await mkdir(join(server.repo.path, 'sub.rego'));
  await server.commit({
    'a.rego': { link: 'secret.txt' },
    'l.rego': { link: '/etc/hostname' },
    'data.json': { link: 'secret.txt' },
  });
  assert.equal(server.part.tracker.status().error, undefined);
  const delta = await server.part.bundle([], base);
  assert.deepEqual([delta.manifest, delta.deleted_files?.policy_modules], [[], ['a.rego']]);
  assert.deepEqual((await server.part.bundle()).manifest, ['b.rego']);
});

test('a client of a directory that was deleted is told so; a newcomer gets 404', async () => {
  await using server = await start({ 'a/m.rego': '1', 'a/data.json': '{}', 'b/n.rego': '2' });
  const base = server.part.tracker.head() ?? '';
  await server.commit({ a: null });
  assert.deepEqual(server.part.changes.at(-1)?.changedDirectories, ['.', 'a']);
  const bundle = await server.part.bundle(['a'], base);
  assert.deepEqual(bundle.deleted_files, { data_modules: ['a'], policy_modules: ['a/m.rego'] });
  await assert.rejects(server.part.bundle(['a']), { code: 'policy_path_unknown' });
});

test('for a client of ours a directory that is not there counts as empty, and the bundle names it', async () => {
  await using server = await start({ 'app/a.rego': 'package app\n', 'team/t.rego': 'package team\n' });
  const base = server.part.tracker.head() ?? '';
  const ask = async (query: string): Promise<PolicyBundle> => {
    const answer = await server.app.inject({ url: `/policy?path=app&${query}`, headers: { 'x-sync-protocol': '2' } });
    assert.equal(answer.statusCode, 200);
    return answer.json();
  };
  assert.equal('missing_directories' in (await ask('path=team')), false);
  await server.commit({ team: null });
  const delta = await ask(`path=team&base_hash=${base}`);
  assert.deepEqual([delta.deleted_files?.policy_modules, delta.missing_directories], [['team/t.rego'], ['team']]);
  const whole = await ask('path=team&path=no/such');
  assert.deepEqual([whole.manifest, whole.missing_directories], [['app/a.rego'], ['no/such', 'team']]);
  // Nobody else hears of it, whoever asked first.
  const others = await server.app.inject('/policy?path=app&path=team');
  assert.deepEqual(
    [others.statusCode, others.json()],
    [404, { detail: 'requested path team was not found in the policy repo!' }],
  );
  const deleted = await server.app.inject(`/policy?path=app&path=team&base_hash=${base}`);
  assert.deepEqual([deleted.statusCode, 'missing_directories' in deleted.json()], [200, false]);
  await server.commit({ 'team/t.rego': 'package team\n' });
  const back = await ask('path=team');
  assert.deepEqual([back.manifest, back.missing_directories], [['app/a.rego', 'team/t.rego'], undefined]);
});

test('names with spaces, quotes, newlines and other alphabets travel unharmed', async () => {
  const files = { 'a b/q"x.rego': '1', 'ä/日本.rego': '2', 'n\nl/data.json': '{"😀":1}', '\u{1f600}.rego': '3' };
  await using server = await start(files);
  const bundle = await server.part.bundle();
  assert.deepEqual(bundle.manifest, ['\u{1f600}.rego', 'a b/q"x.rego', 'n\nl/data.json', 'ä/日本.rego']);
  assert.deepEqual((await server.part.bundle(['ä'])).manifest, ['ä/日本.rego']);
  assert.equal(bundle.data_modules[0]?.data, '{"😀":1}');
});

test('texts arrive byte for byte', async () => {
  const texts = {
    'bom.rego': '\uFEFFpackage a\r\n',
    'empty.rego': '',
    'nul.rego': 'package b\n# \0\n',
    'n/data.json': '{"n": 1.0e400}',
  };
  await using server = await start(texts);
  const { policy_modules, data_modules } = await server.part.bundle();
  assert.deepEqual(
    policy_modules.map(({ path, rego }) => [path, rego]),
    [
      ['bom.rego', texts['bom.rego']],
      ['empty.rego', ''],
      ['nul.rego', texts['nul.rego']],
    ],
  );
  assert.equal(data_modules[0]?.data, texts['n/data.json']);
});

const REFUSED: Record<string, { files: Record<string, FileContent>; says: RegExp }> = {
  'a module that is not UTF-8': {
    files: { 'x/bad.rego': Buffer.from('package x\n\n# \xff\n', 'latin1') },
    says: /x\/bad\.rego:3 is not UTF-8/,
  },
  'a data file that is not JSON': { files: { 'x/data.json': '{"a":1,\n}' }, says: /x\/data\.json:2 is not valid JSON/ },
  'a data file with something behind the value': { files: { 'x/data.json': '{}\n\n{}' }, says: /x\/data\.json:3 / },
  'an empty data file': { files: { 'x/my_data.json': '' }, says: /x\/my_data\.json:1 is not valid JSON/ },
  'a data file that starts with a byte order mark': { files: { 'x/data.json': '\uFEFF{}' }, says: /x\/data\.json:1 / },
  'a root data file that is no object': { files: { 'data.json': '[1]' }, says: / data\.json must be a JSON object/ },
  'a manifest that is not UTF-8': {
    files: { '.manifest': Buffer.from([0xff, 0x0a]) },
    says: /\.manifest:1 is not UTF-8/,
  },
};

describe('a commit that is refused', () => {
  let server: Started;
  before(async () => {
    server = await start({ 'ok.rego': 'package ok' });
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
  });

  for (const [what, { files, says }] of Object.entries(REFUSED)) {
    it(`${what} refuses the commit by its name; the last good head stays until it is repaired`, async () => {
      const { tracker } = server.part;
      const good = tracker.head() ?? '';
      const bad = await server.commit(files);
      const status = tracker.status();
      assert.deepEqual([status.state, status.head], ['failing', good]);
      assert.match(status.error ?? '', says);
      assert.match(status.error ?? '', new RegExp(bad));
      assert.equal((await server.part.bundle()).hash, good);
      // Repaired by a commit on top: the refused one is never the base of anything that was served.
      const repaired = await server.commit(Object.fromEntries(Object.keys(files).map((path) => [path, null])));
      assert.deepEqual([tracker.head(), tracker.status().state], [repaired, 'following']);
      assert.equal(server.part.changes.at(-1)?.oldHash, good);
    });
  }

  it('is refused again after a restart, and the last good head stays, until it is repaired', async () => {
    const good = server.part.tracker.head() ?? '';
    await server.commit({ 'x/data.json': '{"a":1,}' });
    await server.part[Symbol.asyncDispose]();

    await using restarted = startPolicyPart(server.where);
    await restarted.serves(good);
    await restarted.tracker.refresh();
    assert.deepEqual([restarted.tracker.head(), restarted.tracker.status().state], [good, 'failing']);
    const repaired = await server.repo.commit({ 'x/data.json': null });
    await restarted.tracker.refresh();
    assert.equal(restarted.tracker.head(), repaired);
  });
});

test('what no bundle carries may be broken', async () => {
  await using server = await start({ 'ok.rego': 'package ok' }, { ignore: ['skip/**'] });
  const head = await server.commit({
    'other.json': '{',
    'bytes.bin': Buffer.from([0xff]),
    'skip/data.json': '{',
    'x/.manifest': Buffer.from([0xff]),
  });
  assert.equal(server.part.tracker.head(), head);
});

test('a module whose name is not UTF-8 refuses the commit', async () => {
  await using server = await start({ 'ok.rego': 'package ok' });
  const blob = await server.repo.git('rev-parse', 'HEAD:ok.rego');
  const entry = Buffer.concat([Buffer.from(`100644 blob ${blob}\tx`), Buffer.from([0xff]), Buffer.from('.rego\0')]);
  const tree = execFileSync('git', ['-C', server.repo.path, 'mktree', '-z'], { input: entry }).toString().trim();
  const commit = await server.repo.git('commit-tree', tree, '-p', 'HEAD', '-m', 'name');
  await runGit(['-C', server.repo.path, 'update-ref', 'refs/heads/master', commit]);
  await server.part.tracker.refresh();
  assert.match(server.part.tracker.status().error ?? '', /has a name that is not UTF-8/);
});

test('many callers at once share one build, and later ones take it from memory', async () => {
  await using server = await start({ 'a.rego': 'package a' });
  const base = server.part.tracker.head() ?? '';
  await server.commit({ 'a.rego': 'package b' });
  let reads = 0;
  let looks = 0;
  const { objects } = server.part.source;
  const counted = {
    ...objects,
    hasCommit: (hash: string) => {
      looks++;
      return objects.hasCommit(hash);
    },
    blobs: (ids: readonly string[]) => {
      reads++;
      return objects.blobs(ids);
    },
  };
  const snapshots = createSnapshots({ policyExtensions: ['.rego'], manifestPath: '', ignore: [] }, { objects });
  const deps = { objects: counted, snapshots, tracker: server.part.tracker, log: silentLogger() };
  const bundles = new PolicyBundles({ cacheBytes: 1_000_000 }, deps);
  const answers = await Promise.all(Array.from({ length: 50 }, () => bundles.get({ directories: ['/'] })));
  assert.equal(new Set(answers).size, 1);
  await bundles.get({ directories: [] });
  assert.equal(reads, 1);
  await bundles.get({ directories: [], baseHash: base });
  for (let caller = 0; caller < 5; caller++) await bundles.get({ directories: [], baseHash: base });
  assert.deepEqual([reads, looks], [2, 1], 'git is asked once for a base that many have');
  const uncached = new PolicyBundles({ cacheBytes: 0 }, deps);
  await uncached.get({ directories: [] });
  await uncached.get({ directories: [] });
  assert.equal(reads, 4);
});

test('a bundle that failed to build is built again for the next caller', async () => {
  await using server = await start({ 'a.rego': 'package a' });
  let fail = true;
  const { objects } = server.part.source;
  const snapshots = createSnapshots({ policyExtensions: ['.rego'], manifestPath: '', ignore: [] }, { objects });
  const flaky = {
    ...objects,
    blobs: async (ids: readonly string[]) => {
      if (fail) throw new Error('out of file descriptors');
      return objects.blobs(ids);
    },
  };
  const bundles = new PolicyBundles(
    { cacheBytes: 1_000_000 },
    { objects: flaky, snapshots, tracker: server.part.tracker, log: silentLogger() },
  );
  await assert.rejects(bundles.get({ directories: [] }), /file descriptors/);
  fail = false;
  assert.equal((await bundles.get({ directories: [] })).hash, server.part.tracker.head());
});

test('a manifest file of another name orders bundles', async () => {
  await using server = await start(
    { 'a.rego': '1', 'p/b.rego': '2', 'p/order.txt': 'b.rego\n' },
    { manifestPath: 'p/order.txt' },
  );
  const base = server.part.tracker.head() ?? '';
  assert.deepEqual((await server.part.bundle()).manifest, ['p/b.rego', 'a.rego']);
  await server.commit({ 'p/order.txt': '' });
  assert.deepEqual(server.part.changes.at(-1)?.changedDirectories, ['.', 'p']);
  assert.equal((await server.part.bundle([], base)).old_hash, null);
});

test('a client that follows commit by commit holds what a newcomer gets', async () => {
  await using server = await start({ 'data.json': '{"a":{"k":1}}', 'a/m.rego': '1', 'b/data.json': '{}' });
  const steps: Record<string, FileContent>[] = [
    { 'a/data.json': '{"x":1}' },
    { 'data.json': '{"b":2}' },
    { 'a/data.json': null, 'a/z/data.json': '{"z":1}' },
    { 'data.json': null },
    { 'a/m.rego': null, 'c/m.rego': '1', 'b/a_data.json': '{"y":1}' },
    { 'b/data.json': null, '.manifest': 'c/m.rego' },
  ];
  let held = applyBundle(undefined, await server.part.bundle());
  for (const step of steps) {
    const hash = await server.commit(step);
    held = applyBundle(held, await server.part.bundle([], held.hash));
    const fresh = applyBundle(undefined, await server.part.bundle());
    assert.equal(held.hash, hash);
    assert.deepEqual([held.data, [...held.modules].sort()], [fresh.data, [...fresh.modules].sort()]);
  }
});

test('the order without a manifest is that of a walk which takes the files of each tree before its subtrees', async () => {
  const names = [
    'm.rego',
    'a/m.rego',
    'a-b/m.rego',
    'a.x/m.rego',
    'a0/m.rego',
    'A/data.json',
    'a.rego',
    'z/a/data.json',
  ];
  await using server = await start(
    Object.fromEntries([...names, 'z/data.json', 'data.json'].map((path) => [path, '{}'])),
  );
  const walk = async (tree: string, above: string): Promise<string[]> => {
    const lines = (await runGit(['--git-dir', server.where.clonePath, 'ls-tree', tree]))
      .split('\n')
      .filter((line) => line !== '');
    const items = lines.map((line) => /^\S+ (\S+) (\S+)\t(.*)$/.exec(line)?.slice(1) as [string, string, string]);
    const files = items.filter(([type]) => type === 'blob').map(([, , name]) => above + name);
    for (const [type, id, name] of items) if (type === 'tree') files.push(...(await walk(id, `${above}${name}/`)));
    return files;
  };
  const walked = await walk(`${server.part.tracker.head()}`, '');
  assert.deepEqual((await server.part.bundle()).manifest, walked);
});
