import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { FileDiff, PolicyDiffAnswer, PolicyFilesAnswer, PolicySourceAnswer } from '../../src/wire/fleet-views.js';
import { bundleOf } from '../support/archive.js';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { bundleHttpServer } from '../support/bundle-http-server.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const MODULE = 'package app.rbac\n\nimport rego.v1\n\nallow if input.user == "alice"\n';

/** Settings of a server that looks at a repository when it starts and when it is told to: each look is a program or two. */
function following({ url }: { url: string }): Record<string, string> {
  return { SYNC_POLICY_REPO_URL: url, SYNC_POLICY_REPO_POLLING_INTERVAL: '0' };
}

async function read<T>(server: { url: string }, path: string, headers: Record<string, string> = {}): Promise<T> {
  const { status, json, text } = await request(`${server.url}${path}`, { headers });
  assert.equal(status, 200, text);
  return json as T;
}

/** Waits until a commit is served. */
async function serves(server: StartedServer, hash: string, headers: Record<string, string> = {}): Promise<void> {
  await until(
    async () => field((await request(`${server.url}/healthcheck`, { headers })).json, 'policy', 'head') === hash,
    { withinMs: 20_000, what: `${hash} is served` },
  );
}

async function look(server: StartedServer, headers: Record<string, string> = {}): Promise<void> {
  assert.deepEqual((await postJson(`${server.url}/policy/refresh`, {}, headers)).json, { status: 'ok' });
}

/** Hunks as `-old`, `+new` and ` same`. */
function text({ hunks }: FileDiff): string[] {
  const signs = { same: ' ', added: '+', removed: '-' };
  return hunks.flatMap(({ lines }) => lines.map((line) => signs[line.kind] + line.text));
}

function fileAt({ files }: PolicyDiffAnswer, path: string): FileDiff {
  const found = files.find((one) => one.path === path);
  assert(found !== undefined, `${path} of ${files.map((one) => one.path).join()}`);
  return found;
}

/** Commits a file whose name no argument of a program can have, or that git would quote. */
async function commitNamed(repo: GitRepo, name: Buffer, content: string): Promise<string> {
  const options = { cwd: repo.path, input: content };
  const blob = execFileSync('git', ['hash-object', '-w', '--stdin'], options).toString().trim();
  const line = Buffer.concat([Buffer.from(`100644 ${blob}\t`), name, Buffer.from([0])]);
  execFileSync('git', ['update-index', '-z', '--index-info'], { cwd: repo.path, input: line });
  await repo.git('commit', '--quiet', '--message=a name');
  return await repo.git('rev-parse', 'HEAD');
}

describe('the policy source for people', () => {
  it('has its commits with title, author and what became of them, the last look and its result', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'app/main.rego': `${MODULE}# before this server\n` });
    const first = await repo.commit({ 'app/main.rego': MODULE });
    await using server = await startServer(following(repo));
    await serves(server, first);
    await repo.commit({ 'app/main.rego': `${MODULE}# between\n` });
    const bad = await repo.commit({ 'app/data.json': '{"a": ' });
    await look(server);
    const refused = await until(
      async () => {
        const answer = await read<PolicySourceAnswer>(server, '/policy/source');
        return answer.status?.refused === bad && answer;
      },
      { withinMs: 20_000, what: 'the commit is refused' },
    );
    assert.deepEqual(
      refused.commits.map(({ hash, state, title, author }) => [hash === bad || hash === first, state, title, author]),
      [
        [true, 'refused', 'test', 'test'],
        [false, 'replaced', 'test', 'test'],
        [true, 'head', 'test', 'test'],
        [false, 'older', 'test', 'test'],
      ],
    );
    assert.match(refused.commits[0]?.error?.message ?? '', /^is not valid JSON/);
    assert.equal(refused.commits[0]?.error?.file, 'app/data.json');
    assert.equal(refused.commits[0]?.error?.code, 'policy_commit_refused');
    assert.deepEqual([refused.type, refused.source, refused.branch], ['GIT', repo.url, 'HEAD']);
    assert.deepEqual([refused.last_look_result, refused.status?.head], ['failed', first]);
    assert(Math.abs((refused.last_look ?? 0) - Date.now()) < 60_000);
    const good = await repo.commit({ 'app/data.json': '{"a": 1}' });
    await look(server);
    await serves(server, good);
    const states = async (): Promise<string[]> =>
      (await read<PolicySourceAnswer>(server, '/policy/source')).commits.map(({ state }) => state);
    assert.deepEqual(await states(), ['head', 'refused', 'replaced', 'served', 'older']);
    await look(server);
    await until(async () => (await read<PolicySourceAnswer>(server, '/policy/source')).last_look_result === 'same', {
      withinMs: 20_000,
      what: 'nothing new',
    });
  });

  it('says of the files of any commit their order, package, size, and what replaces them', async () => {
    await using repo = await gitRepo();
    const before = await repo.commit({ 'a.rego': 'package a\n' });
    const hash = await repo.commit({
      '.manifest': 'lib\nmissing.rego\n',
      'lib/.manifest': 'text.rego\n',
      'lib/text.rego': 'package lib["text"].x\n',
      'data.json': '{"x": 1}',
      'app/data.json': '{}',
      'app/z_data.json': '{}',
      'README.md': 'nothing',
      'broken.rego': 'pack',
    });
    await using server = await startServer(following(repo));
    await serves(server, hash);
    const answer = await read<PolicyFilesAnswer>(server, '/policy/files');
    assert.deepEqual(
      answer.files.map(({ path, kind, order, listed, package: name, bytes }) => [
        path,
        kind,
        order,
        listed,
        name,
        bytes,
      ]),
      [
        ['lib/text.rego', 'policy', 1, true, 'lib["text"].x', 22],
        ['a.rego', 'policy', 2, false, 'a', 10],
        ['broken.rego', 'policy', 3, false, null, 4],
        ['data.json', 'data', 4, false, 'data', 8],
        ['app/data.json', 'data', 5, false, 'data.app', 2],
        ['app/z_data.json', 'data', 6, false, 'data.app', 2],
      ],
    );
    assert.match(answer.files[4]?.warning ?? '', /replaced by app\/z_data\.json/);
    assert.deepEqual([answer.hash, answer.total, answer.ignored], [hash, 6, 1]);
    assert.deepEqual(answer.manifests, ['.manifest', 'lib/.manifest']);
    assert(answer.warnings.some(({ text }) => text.includes('missing.rego')));
    const old = await read<PolicyFilesAnswer>(server, `/policy/files?at=${before.slice(0, 8)}`);
    assert.deepEqual([old.hash, old.files.map(({ path }) => path)], [before, ['a.rego']]);
  });

  it('compares two commits line by line, the files of bundles alone', async () => {
    await using repo = await gitRepo();
    const first = await repo.commit({ 'app/main.rego': MODULE, 'gone.rego': 'package gone\n', 'README.md': 'one' });
    const second = await repo.commit({
      'app/main.rego': MODULE.replace('alice', 'bob'),
      'gone.rego': null,
      'new/data.json': '{"n": 1}\n',
      '.manifest': 'app\n',
      'README.md': 'a password of the readme',
      'ci.yaml': 'a password of ci',
    });
    const third = await repo.commit({ 'README.md': 'three' });
    await using server = await startServer({ ...following(repo), SYNC_BUNDLE_IGNORE: 'private/**' });
    await serves(server, third);
    const diff = await read<PolicyDiffAnswer>(server, `/policy/diff?from=${first}&to=${second}`);
    assert.deepEqual(
      diff.files.map(({ path, change, added, removed, binary, truncated }) => [
        ...[path, change, added, removed, binary, truncated],
      ]),
      [
        ['.manifest', 'added', 1, 0, false, false],
        ['app/main.rego', 'modified', 1, 1, false, false],
        ['gone.rego', 'removed', 0, 1, false, false],
        ['new/data.json', 'added', 1, 0, false, false],
      ],
    );
    assert.deepEqual([diff.from, diff.to, diff.total], [first, second, 4]);
    assert.deepEqual(text(fileAt(diff, 'app/main.rego')).slice(-2), [
      '-allow if input.user == "alice"',
      '+allow if input.user == "bob"',
    ]);
    const [line] = fileAt(diff, 'app/main.rego').hunks[0]?.lines.slice(-1) ?? [];
    assert.deepEqual([line?.old, line?.new], [null, 5]);
    assert.doesNotMatch(JSON.stringify(diff), /password/);
    const last = await read<PolicyDiffAnswer>(server, '/policy/diff');
    assert.deepEqual([last.from, last.to, last.files], [second, third, []], 'the head and the commit before it');
    const all = await read<PolicyDiffAnswer>(server, `/policy/diff?to=${first}`);
    assert.deepEqual([all.from, all.files.map(({ path }) => path)], [null, ['app/main.rego', 'gone.rego']]);
    const back = await read<PolicyDiffAnswer>(server, `/policy/diff?from=${second}&to=${first}`);
    assert.deepEqual(text(fileAt(back, 'gone.rego')), ['+package gone']);
  });

  it('refuses a commit that is not of the branch, and anything that is no commit', async () => {
    await using repo = await gitRepo();
    const first = await repo.commit({ 'app/main.rego': MODULE });
    const replaced = await repo.commit({ 'app/main.rego': `${MODULE}# replaced\n` });
    await using server = await startServer(following(repo));
    await serves(server, replaced);
    // The mirror gets objects that no branch leads to.
    const tree = await repo.git('rev-parse', 'HEAD^{tree}');
    const blob = await repo.git('rev-parse', 'HEAD:app/main.rego');
    const orphan = await repo.git('commit-tree', tree, '-m', 'an orphan');
    const mirror = join(server.stateDir, 'policy-repo');
    execFileSync('git', ['--git-dir', mirror, 'fetch', '--quiet', repo.path, `${orphan}`], {
      env: {
        ...process.env,
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'uploadpack.allowAnySHA1InWant',
        GIT_CONFIG_VALUE_0: 'true',
      },
    });
    execFileSync('git', ['--git-dir', mirror, 'cat-file', '-e', orphan]);
    const ask = (query: string): Promise<Answer> => request(`${server.url}/policy/${query}`);
    const unknown = [orphan.slice(0, 10), tree, blob, 'f'.repeat(40)].map((hash) => `diff?to=${hash}`);
    for (const query of [...['diff?to', 'diff?from', 'files?at'].map((place) => `${place}=${orphan}`), ...unknown]) {
      const { status, headers, text: body } = await ask(query);
      assert.deepEqual([status, headers.get('x-sync-error')], [404, 'policy_commit_unknown'], `${query}: ${body}`);
    }
    const canary = join(server.stateDir, 'canary');
    for (const odd of ['HEAD', `--output=${canary}`, 'master', '..', 'abc', `${first}^`, '-']) {
      assert.equal((await ask(`diff?to=${encodeURIComponent(odd)}`)).status, 422, odd);
    }
    assert(!existsSync(canary));
    // A commit that is served stays listed, and readable, when a force-push takes it from the branch.
    await repo.git('reset', '--quiet', '--hard', first);
    const bad = await repo.commit({ 'app/data.json': 'no JSON' });
    await look(server);
    const listed = await until(
      async () => {
        const answer = await read<PolicySourceAnswer>(server, '/policy/source');
        return answer.status?.refused === bad && answer.commits.map(({ hash, state }) => `${hash} ${state}`);
      },
      { withinMs: 20_000, what: 'the branch has a refused commit' },
    );
    // Of one second, they come in any order.
    const states = listed.map((line) => line.replace(/ older$/, ' replaced'));
    assert.deepEqual(states.toSorted(), [`${bad} refused`, `${first} replaced`, `${replaced} head`].toSorted());
    await repo.git('reset', '--quiet', '--hard', first);
    const forced = await repo.commit({ 'app/main.rego': `${MODULE}# forced\n` });
    await look(server);
    await serves(server, forced);
    const diff = await read<PolicyDiffAnswer>(server, `/policy/diff?from=${replaced}`);
    assert.deepEqual(text(fileAt(diff, 'app/main.rego')).slice(-2), ['-# replaced', '+# forced']);
  });

  it('is not led astray by a hostile repository', async () => {
    await using dir = await tempDir();
    const canary = join(dir.path, 'canary');
    await using repo = await gitRepo();
    await repo.commit({
      'app/main.rego': MODULE,
      'bin.rego': 'package bin\n',
      '.gitattributes': '*.rego diff=evil -diff filter=evil\n*.json binary\n.manifest -diff\n',
      '.gitconfig': `[diff "evil"]\n\tcommand = touch ${canary}\n\ttextconv = touch ${canary}\n`,
      '.mailmap': 'Somebody <x@example.com> test <test@example.com>\n',
    });
    const from = await repo.git('rev-parse', 'HEAD');
    await repo.commit({
      'app/main.rego': MODULE.replace('alice', 'mallory'),
      'bin.rego': Buffer.from([0, 1, 2, 0xff]),
    });
    await commitNamed(repo, Buffer.from('a"b\n\t\\c\u001b[31m.rego'), 'package quoted\n');
    await commitNamed(repo, Buffer.from([0x2d, 0x2d, 0xff, 0xfe, ...Buffer.from('.rego')]), 'package bytes\n');
    await repo.git('commit', '--quiet', '--allow-empty', `--message=\u001b[31mred\u0007 ${'x'.repeat(10_000)}`);
    const to = await repo.git('rev-parse', 'HEAD');
    // A module that is not UTF-8 is refused: the differences of a refused commit are what people want to see.
    await using server = await startServer(following(repo));
    await until(
      async () =>
        field((await request(`${server.url}/healthcheck`)).json, 'policy', 'state') !== 'starting' ||
        (await read<PolicySourceAnswer>(server, '/policy/source')).status?.error != null,
      {
        withinMs: 20_000,
        what: 'it has looked',
      },
    );
    const source = await read<PolicySourceAnswer>(server, '/policy/source');
    const title = source.commits[0]?.title ?? '';
    assert(title.length <= 300 && title.includes('red') && !/\p{Cc}/u.test(title), title);
    const diff = await read<PolicyDiffAnswer>(server, `/policy/diff?from=${from}&to=${to}`);
    assert.deepEqual(diff.files.map(({ path }) => path).sort(), [
      '--\ufffd\ufffd.rego',
      'a"b\n\t\\c\u001b[31m.rego',
      'app/main.rego',
      'bin.rego',
    ]);
    assert(text(fileAt(diff, 'app/main.rego')).includes('+allow if input.user == "mallory"'), 'no attribute hides it');
    assert.deepEqual([fileAt(diff, 'bin.rego').binary, fileAt(diff, 'bin.rego').hunks], [true, []]);
    assert.deepEqual(text(fileAt(diff, 'a"b\n\t\\c\u001b[31m.rego')), ['+package quoted']);
    assert.deepEqual(text(fileAt(diff, '--\ufffd\ufffd.rego')), ['+package bytes']);
    assert(!existsSync(canary));
  });

  it('cuts what is very large, and says so', async () => {
    await using repo = await gitRepo();
    const lines = (word: string, count: number): string =>
      Array.from({ length: count }, (_, index) => `# ${word} ${index}\n`).join('');
    const first = await repo.commit({ 'a.rego': `package a\n${lines('one', 100_000)}` });
    const many = Object.fromEntries(
      Array.from({ length: 250 }, (_, index) => [`m/${index}.rego`, `package m${index}\n`]),
    );
    const second = await repo.commit({
      'a.rego': `package a\n${lines('two', 100_000)}`,
      'huge.data.json': `{"x":"${'x'.repeat(3_000_000)}"}`,
      'long.rego': `package long\n# ${'é'.repeat(5000)}\n`,
      ...many,
    });
    await using server = await startServer(following(repo));
    await serves(server, second);
    const answer = await request(`${server.url}/policy/diff?from=${first}&to=${second}`);
    assert(answer.text.length < 4_000_000, String(answer.text.length));
    const diff = answer.json as PolicyDiffAnswer;
    assert.deepEqual([diff.total, diff.files.length], [253, 200]);
    const a = fileAt(diff, 'a.rego');
    assert.deepEqual([a.added, a.removed, a.truncated, a.binary], [100_000, 100_000, true, false]);
    assert.equal(text(a).length, 5000);
    assert.equal(fileAt(diff, 'huge.data.json').binary, true, 'too large to compare line by line');
    assert(diff.files.filter(({ hunks }) => hunks.length === 0).every(({ truncated, binary }) => truncated || binary));
  });

  it('shows archives of a bundle server as what they are', async () => {
    await using bundles = await bundleHttpServer();
    await bundles.put(await bundleOf({ 'a.rego': 'package a\n' }));
    await using server = await startServer({
      SYNC_POLICY_SOURCE_TYPE: 'API',
      SYNC_POLICY_BUNDLE_URL: bundles.url,
      SYNC_POLICY_REPO_POLLING_INTERVAL: '0',
    });
    const heads = async (count: number): Promise<PolicySourceAnswer> =>
      await until(
        async () => {
          const answer = await read<PolicySourceAnswer>(server, '/policy/source');
          return answer.commits.length === count && answer.commits[0]?.state === 'head' && answer;
        },
        { withinMs: 20_000, what: `${count} archives` },
      );
    await heads(1);
    await bundles.put(await bundleOf({ 'a.rego': 'package a\n\nx := 1\n' }));
    await look(server);
    const { type, branch, commits } = await heads(2);
    assert.deepEqual([type, branch], ['API', null]);
    assert.deepEqual(
      commits.map(({ title, author, state, at }) => [title, author, state, Math.abs(at - Date.now()) < 60_000]),
      [
        ['Bundle archive', '', 'head', true],
        ['Bundle archive', '', 'served', true],
      ],
    );
    const diff = await read<PolicyDiffAnswer>(server, '/policy/diff');
    assert.deepEqual([diff.from, diff.to], [commits[1]?.hash, commits[0]?.hash], 'with the archive before');
    assert.deepEqual(text(fileAt(diff, 'a.rego')), [' package a', '+', '+x := 1']);
  });

  it('is open to whoever may fetch bundles, limited or not; looking is for datasource tokens', async () => {
    await using repo = await gitRepo();
    const hash = await repo.commit({ 'app/main.rego': MODULE });
    await using server = await startServer({ ...following(repo), ...withKeys() });
    await serves(server, hash);
    const limited = { claims: { permitted_topics: ['x'], permitted_paths: ['/x'] } };
    for (const type of ['listener', 'datasource']) {
      for (const more of [{}, limited]) {
        const headers = bearer(await tokenOf(server.url, { type, ...more }));
        for (const path of ['/policy/source', '/policy/files', '/policy/diff']) await read(server, path, headers);
        const { status } = await postJson(`${server.url}/policy/refresh`, {}, headers);
        assert.equal(status, type === 'datasource' ? 200 : 401);
      }
    }
  });

  it('says that there is no source, or no commit yet', async () => {
    await using none = await startServer();
    assert.deepEqual(await read(none, '/policy/source'), {
      ...{ type: 'none', source: null, branch: null, status: { state: 'none' }, last_look: null },
      ...{ last_look_result: null, commits: [] },
    });
    for (const path of ['files', 'diff']) {
      const { status, headers } = await request(`${none.url}/policy/${path}`);
      assert.deepEqual([status, headers.get('x-sync-error')], [503, 'policy_not_ready']);
    }
    assert.equal((await postJson(`${none.url}/policy/refresh`, {})).status, 503);
    await using empty = await startServer({ SYNC_POLICY_REPO_URL: 'file:///nonexistent/repo.git' });
    const starting = await read<PolicySourceAnswer>(empty, '/policy/source');
    assert.deepEqual([starting.type, starting.commits], ['GIT', []]);
    assert.equal((await request(`${empty.url}/policy/files`)).status, 503);
  });
});
