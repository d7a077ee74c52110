import assert from 'node:assert/strict';
import { exec, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { sleep } from '../../src/lib/run/async.js';
import { createGitSource } from '../../src/server/policy/source/git-source.js';
import type { MirrorSource } from '../../src/server/policy/source/mirror-source.js';
import { sshCommandFor } from '../../src/server/policy/source/ssh-key.js';
import { gitHttpServer } from '../support/git-http-server.js';
import { type GitRepo, gitRepo, gitRepoAt, runGit } from '../support/git-repo.js';
import { startPolicyPart } from '../support/policy-part.js';
import { onPath } from '../support/server-programs.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const AUTH = { user: 'bot', password: 'p@ss/word-7' };
const CREDENTIALS = `${AUTH.user}:${encodeURIComponent(AUTH.password)}@`;

/** A repository, an address that it is served at, and a place for the mirror. */
interface Remote extends AsyncDisposable {
  repo: Omit<GitRepo, typeof Symbol.asyncDispose>;
  url: string;
  clonePath: string;
}

const REMOTES = {
  'over file': async (): Promise<Remote> => {
    const dir = await tempDir();
    const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
    const clonePath = join(dir.path, 'mirror');
    return { repo, url: repo.url, clonePath, [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() };
  },
  'over http with credentials': async (): Promise<Remote> => {
    const dir = await tempDir();
    const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
    const server = await gitHttpServer(join(dir.path, 'remote'), AUTH);
    return {
      repo,
      url: `${server.url.replace('//', `//${CREDENTIALS}`)}/repo/.git`,
      clonePath: join(dir.path, 'mirror'),
      [Symbol.asyncDispose]: async () => {
        await server[Symbol.asyncDispose]();
        await dir[Symbol.asyncDispose]();
      },
    };
  },
} satisfies Record<string, () => Promise<Remote>>;

for (const [how, startRemote] of Object.entries(REMOTES)) {
  test(`${how}: serves the branch, then each new commit that is asked for`, async () => {
    await using remote = await startRemote();
    const first = await remote.repo.commit({ 'a/m.rego': 'package a', 'README.md': 'x' });
    await using part = startPolicyPart(remote);
    await part.serves(first);
    assert.deepEqual(part.changes, [{ oldHash: first, hash: first, changedDirectories: ['.', 'a'] }]);

    const second = await remote.repo.commit({ 'b/c/m.rego': 'package c' });
    await part.tracker.refresh();
    assert.equal(part.tracker.head(), second);
    assert.deepEqual(part.changes[1], { oldHash: first, hash: second, changedDirectories: ['.', 'b', 'b/c'] });
    assert.deepEqual((await part.bundle([], first)).manifest, ['b/c/m.rego']);

    const irrelevant = await remote.repo.commit({ 'README.md': 'y' });
    await part.tracker.refresh();
    assert.equal(part.tracker.head(), irrelevant);
    assert.deepEqual(part.changes.slice(2), [{ oldHash: second, hash: irrelevant, changedDirectories: [] }]);
  });
}

// From here on what is fetched decides, not how.
test('over file: polls without being asked', async () => {
  await using remote = await REMOTES['over file']();
  const first = await remote.repo.commit({ 'm.rego': 'package a' });
  await using part = startPolicyPart({ ...remote, pollingIntervalMs: 20 });
  await part.serves(first);
  await part.serves(await remote.repo.commit({ 'm.rego': 'package b' }));
});

test('over file: follows a force-push, and the lost commit stays good as a base', async () => {
  await using remote = await REMOTES['over file']();
  const root = await remote.repo.commit({ 'm.rego': 'package a' });
  const lost = await remote.repo.commit({ 'lost.rego': 'package lost' });
  await using part = startPolicyPart(remote);
  await part.serves(lost);
  await remote.repo.git('reset', '--quiet', '--hard', root);
  const forced = await remote.repo.commit({ 'new.rego': 'package new' });
  await remote.repo.git('reflog', 'expire', '--expire=now', '--all');
  await remote.repo.git('gc', '--quiet', '--prune=now');
  await part.tracker.refresh();
  assert.equal(part.tracker.head(), forced);
  const delta = await part.bundle([], lost);
  assert.deepEqual(
    [delta.old_hash, delta.manifest, delta.deleted_files?.policy_modules],
    [lost, ['new.rego'], ['lost.rego']],
  );
});

test('over file: a deleted branch leaves the last head served and says why; it recovers by itself', async () => {
  await using remote = await REMOTES['over file']();
  const head = await remote.repo.commit({ 'm.rego': 'package a' });
  await using part = startPolicyPart(remote);
  await part.serves(head);
  await remote.repo.git('checkout', '--quiet', '-b', 'other');
  await remote.repo.git('branch', '--quiet', '-D', 'master');
  await part.tracker.refresh();
  const status = part.tracker.status();
  assert.deepEqual([status.state, status.head], ['failing', head]);
  assert.match(
    status.error ?? '',
    /branch master does not exist in .*it has other: set SYNC_POLICY_REPO_MAIN_BRANCH=other \(--policy-/,
  );
  assert.equal((await part.bundle()).hash, head);
  const next = await remote.repo.commit({ 'm.rego': 'package b' });
  await remote.repo.git('branch', 'master');
  await part.serves(next);
});

test('a wrong branch is named with the branches that exist, also in a repository without any', async () => {
  await using remote = await REMOTES['over file']();
  const source = createGitSource(
    { ...remote, branch: 'main', fetchTimeoutMs: 5_000, env: process.env },
    { log: silentLogger() },
  );
  const fetch = (): Promise<string> => source.fetch(new AbortController().signal);
  await assert.rejects(fetch, { code: 'git_branch_missing', message: /branch main .*no branches yet/ });
  await remote.repo.commit({ 'm.rego': 'package a' });
  await remote.repo.git('branch', 'dev');
  await assert.rejects(fetch, { code: 'git_branch_missing', message: /branch main .*it has dev, master$/ });
});

test('a branch name that is none is refused at once', () => {
  for (const branch of ['', '-x', 'a..b', 'a b', 'a~1', 'x.lock', '/a', 'a/', 'a:b', '@{u}']) {
    assert.throws(
      () =>
        createGitSource(
          { url: '/x', clonePath: '/x', branch, fetchTimeoutMs: 0, env: process.env },
          { log: silentLogger() },
        ),
      { code: 'config_invalid' },
      branch,
    );
  }
});

test('an unreachable remote is waited for', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
  const head = await repo.commit({ 'm.rego': 'package a' });
  // A port that nobody listens on.
  const placeholder = createServer().listen(0, '127.0.0.1');
  await once(placeholder, 'listening');
  const address = placeholder.address();
  assert(typeof address === 'object' && address !== null);
  placeholder.close();
  await once(placeholder, 'close');
  const offline = `http://127.0.0.1:${address.port}`;
  await using part = startPolicyPart({ url: `${offline}/repo/.git`, clonePath: join(dir.path, 'mirror') });
  await until(() => part.tracker.status().error, { withinMs: 20_000, what: 'an error in the status' });
  const { state, error } = part.tracker.status();
  assert.equal(state, 'starting');
  assert.match(error ?? '', /repo\/\.git: git fetch failed: .*(connect|refused)/i);
  await assert.rejects(part.bundle(), { code: 'policy_not_ready' });
  await using _server = await gitHttpServer(join(dir.path, 'remote'), undefined, address.port);
  await part.serves(head);
});

test('a remote that hangs runs into the timeout, git is gone afterwards, and the last head is served', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
  await using server = await gitHttpServer(join(dir.path, 'remote'));
  const head = await repo.commit({ 'm.rego': 'package a' });
  const url = `${server.url}/repo/.git`;
  await using part = startPolicyPart({ url, clonePath: join(dir.path, 'mirror'), fetchTimeoutMs: 400 });
  await part.serves(head);
  server.hang = true;
  await part.tracker.refresh();
  assert.match(part.tracker.status().error ?? '', /did not finish within 0\.4 s/);
  assert.equal((await part.bundle()).hash, head);
  server.hang = false;
  await part.serves(await repo.commit({ 'm.rego': 'package b' }));
});

test('a remote that falls silent is left long before the timeout, and one that is only slow gets the time that it needs', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
  await using server = await gitHttpServer(join(dir.path, 'remote'));
  const head = await repo.commit({ 'm.rego': 'package a' });
  const where = { url: `${server.url}/repo/.git`, clonePath: join(dir.path, 'mirror') };
  await using part = startPolicyPart({ ...where, fetchTimeoutMs: 60_000, silenceTimeoutMs: 600 });
  await part.serves(head);
  server.hang = true;
  await part.tracker.refresh();
  const { state, code, error } = part.tracker.status();
  assert.deepEqual([state, code], ['failing', 'git_silent']);
  assert.match(error ?? '', /git fetch: no progress from the remote for [\d.]+ s/);
  assert.equal((await part.bundle()).hash, head);
  server.hang = false;
  // Three requests that wait are longer than the setting: the next tries have more patience.
  server.hold = () => sleep(300, new AbortController().signal);
  const second = await repo.commit({ 'm.rego': 'package b' });
  await part.serves(second);
});

test('stopping does not wait for a remote that hangs, and leaves no git behind', async () => {
  await using dir = await tempDir();
  await using server = await gitHttpServer(dir.path);
  server.hang = true;
  const url = `${server.url}/stop-me/.git`;
  const part = startPolicyPart({ url, clonePath: join(dir.path, 'mirror'), fetchTimeoutMs: 60_000 });
  await until(() => server.requests.length > 0, { withinMs: 20_000, what: 'a request' });
  assert.match(await processes(), /stop-me/);
  await part[Symbol.asyncDispose]();
  assert.doesNotMatch(await processes(), /stop-me/);
});

test('credentials are in no argument of a process, no error and no status', async () => {
  await using dir = await tempDir();
  await mkdir(join(dir.path, 'remote'));
  const root = join(dir.path, 'remote');
  await using server = await gitHttpServer(root, AUTH);
  const urlOf = ({ url }: { url: string }): string => `${url.replace('//', `//${CREDENTIALS}`)}/secret-repo/.git`;
  server.hang = true;
  await using _part = startPolicyPart({ url: urlOf(server), clonePath: join(dir.path, 'mirror') });
  await until(() => server.requests.length > 0, { withinMs: 20_000, what: 'a request with credentials' });
  const seen = await processes();
  assert.match(seen, /secret-repo/);
  const basic = Buffer.from(`${AUTH.user}:${AUTH.password}`).toString('base64');
  const secrets = [AUTH.password, encodeURIComponent(AUTH.password), basic];
  for (const secret of secrets) assert(!seen.includes(secret), 'a process list shows a credential');
  await using other = await gitHttpServer(root, { user: AUTH.user, password: 'another' });
  await using denied = startPolicyPart({ url: urlOf(other), clonePath: join(dir.path, 'mirror-2') });
  const error = await until(() => denied.tracker.status().error, { withinMs: 20_000, what: 'a refusal' });
  assert.match(error, /secret-repo/);
  for (const secret of secrets) assert(!error.includes(secret), `the status shows a credential: ${error}`);
  const stored = await readFile(join(dir.path, 'mirror-2', 'policysync-mirror.json'), 'utf8');
  for (const secret of secrets) assert(!stored.includes(secret), 'the mirror stores a credential');
});

test('a restart serves what it has while the remote does not answer', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
  await using server = await gitHttpServer(join(dir.path, 'remote'));
  const where = { url: `${server.url}/repo/.git`, clonePath: join(dir.path, 'mirror') };
  const head = await repo.commit({ 'm.rego': 'package a' });
  {
    await using part = startPolicyPart(where);
    await part.serves(head);
  }
  server.hang = true;
  await using part = startPolicyPart(where);
  await part.serves(head);
  assert.equal((await part.bundle()).policy_modules[0]?.rego, 'package a');
});

test('a folder that is not ours, and a mirror of another repository, are refused and stay as they are', async () => {
  await using dir = await tempDir();
  await using one = await gitRepo();
  await using two = await gitRepo();
  const [oneHead] = [await one.commit({ 'm.rego': 'package a' }), await two.commit({ 'm.rego': 'package b' })];
  const signal = new AbortController().signal;
  const foreign = join(dir.path, 'foreign');
  await mkdir(foreign);
  await writeFile(join(foreign, 'precious.txt'), 'mine');
  const source = (url: string, clonePath: string): ReturnType<typeof createGitSource> =>
    createGitSource({ url, clonePath, branch: 'master', fetchTimeoutMs: 0, env: process.env }, { log: silentLogger() });
  await assert.rejects(source(one.url, foreign).fetch(signal), {
    code: 'config_invalid',
    message: /foreign.*not empty/,
  });
  assert.deepEqual(await readdir(foreign), ['precious.txt']);

  const mirror = join(dir.path, 'mirror');
  const served = source(one.url, mirror);
  await served.markServed(await served.fetch(signal));
  await assert.rejects(source(two.url, mirror).fetch(signal), {
    code: 'config_invalid',
    message: /is a mirror of file:/,
  });
  assert.equal(await source(one.url, mirror).open(signal), oneHead);
});

test('a marker that cannot be read: the mirror is made anew in a folder of our own, and refused in one that was named', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const head = await repo.commit({ 'm.rego': 'package a' });
  const where = { url: repo.url, clonePath: join(dir.path, 'mirror'), branch: 'master', fetchTimeoutMs: 0 };
  const source = (isOwnFolder: boolean): ReturnType<typeof createGitSource> =>
    createGitSource({ ...where, isOwnFolder, env: process.env }, { log: silentLogger() });
  const signal = new AbortController().signal;
  await source(true).fetch(signal);
  for (const text of ['{', '{"version":2,"url":"x"}', '[]']) {
    await writeFile(join(where.clonePath, 'policysync-mirror.json'), text);
    await assert.rejects(source(false).open(signal), {
      code: 'config_invalid',
      message: /unreadable.*choose an empty/,
    });
    const anew = source(true);
    assert.equal(await anew.fetch(signal), head, text);
    await anew.markServed(head);
    assert.equal(await source(false).open(signal), head, 'it is a mirror again');
  }
});

test('what was fetched and never served, as it was refused, is not served after a restart; the mirror stays', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const head = await repo.commit({ 'm.rego': 'package a' });
  const where = { url: repo.url, clonePath: join(dir.path, 'mirror'), branch: 'master', fetchTimeoutMs: 0 };
  const source = (): ReturnType<typeof createGitSource> =>
    createGitSource({ ...where, env: process.env }, { log: silentLogger() });
  const signal = new AbortController().signal;
  await source().fetch(signal);
  const again = source();
  assert.deepEqual([await again.open(signal), await again.has(head)], [undefined, true]);
});

test('an ordinary clone is not taken for a mirror', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  await repo.commit({ 'm.rego': 'package a' });
  await runGit(['clone', '--quiet', '--bare', repo.path, join(dir.path, 'clone')]);
  const source = createGitSource(
    { url: repo.url, clonePath: join(dir.path, 'clone'), branch: 'master', fetchTimeoutMs: 0, env: process.env },
    { log: silentLogger() },
  );
  await assert.rejects(source.open(new AbortController().signal), { code: 'config_invalid' });
});

test('a server that was killed in the middle of its first fetch starts again', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
  const head = await repo.commit({ 'm.rego': 'package a' });
  await using server = await gitHttpServer(join(dir.path, 'remote'));
  const where = { url: `${server.url}/repo/.git`, clonePath: join(dir.path, 'mirror') };
  server.hang = true;
  const child = spawn(process.execPath, [
    join(import.meta.dirname, 'git-source-fetcher.js'),
    where.url,
    where.clonePath,
  ]);
  await until(() => server.requests.length > 0, { withinMs: 20_000, what: 'the fetch of the child' });
  child.kill('SIGKILL');
  await once(child, 'close');
  server.hang = false;
  await using part = startPolicyPart(where);
  await part.serves(head);
});

test('locks and half-written packs of a killed git are cleared away', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const where = { url: repo.url, clonePath: join(dir.path, 'mirror') };
  const first = await repo.commit({ 'm.rego': 'package a' });
  {
    await using part = startPolicyPart(where);
    await part.serves(first);
  }
  const leftovers = [
    'HEAD.lock',
    'packed-refs.lock',
    'shallow.lock',
    'refs/heads/master.lock',
    'objects/pack/tmp_pack_x',
  ];
  for (const name of leftovers) {
    await mkdir(join(where.clonePath, name, '..'), { recursive: true });
    await writeFile(join(where.clonePath, name), 'half');
  }
  const second = await repo.commit({ 'm.rego': 'package b' });
  await using part = startPolicyPart(where);
  await part.serves(second);
  for (const name of leftovers) await assert.rejects(stat(join(where.clonePath, name)), { code: 'ENOENT' });
});

test('a mirror with missing objects is made anew at the start', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const where = { url: repo.url, clonePath: join(dir.path, 'mirror') };
  const head = await repo.commit({ 'm.rego': 'package a' });
  {
    await using part = startPolicyPart(where);
    await part.serves(head);
  }
  await emptyObjects(where.clonePath);
  await using part = startPolicyPart(where);
  await part.serves(head);
  assert.equal((await part.bundle()).policy_modules.length, 1);
});

test('a mirror whose check at the start was cut short is checked by the next fetch', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  await repo.commit({ 'm.rego': 'package a' });
  // In place of git: the check of all objects hangs while there is a file `hang`, and says that it has begun.
  const bin = join(dir.path, 'bin');
  const hang = join(dir.path, 'hang');
  await mkdir(bin);
  const script = `#!/bin/sh\ncase "$*" in *rev-list*) [ -e '${hang}' ] && touch '${hang}.begun' && sleep 60;; esac\nPATH='${process.env.PATH}' exec git "$@"\n`;
  await writeFile(join(bin, 'git'), script, { mode: 0o755 });
  const clonePath = join(dir.path, 'mirror');
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
  const source = (): ReturnType<typeof createGitSource> =>
    createGitSource({ url: repo.url, branch: 'master', clonePath, fetchTimeoutMs: 0, env }, { log: silentLogger() });
  const { signal } = new AbortController();
  const before = source();
  await before.markServed(await before.fetch(signal));

  await writeFile(hang, '');
  const stop = new AbortController();
  const after = source();
  const opening = assert.rejects(after.open(stop.signal), { name: 'AbortError' });
  await until(() => stat(`${hang}.begun`), { withinMs: 20_000, what: 'the check of all objects' });
  stop.abort();
  await opening;
  await rm(hang);
  const blob = await repo.git('rev-parse', 'HEAD:m.rego');
  await rm(join(clonePath, 'objects', blob.slice(0, 2), blob.slice(2)));
  await after.fetch(signal);
  assert.equal((await after.objects.blobs([blob])).size, 1);
});

test('a mirror whose content turns out to be unreadable is made anew while it is served', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const where = { url: repo.url, clonePath: join(dir.path, 'mirror') };
  const head = await repo.commit({ 'm.rego': 'package a' });
  await using part = startPolicyPart(where);
  await part.serves(head);
  await emptyObjects(where.clonePath);
  await assert.rejects(part.bundle(), { code: 'git_failed' });
  const bundle = await until(() => part.bundle(), { withinMs: 20_000, what: 'the bundle of the new mirror' });
  assert.equal(bundle.hash, head);
  assert.equal(part.tracker.status().state, 'following');
});

test('a damaged mirror is kept as long as the remote cannot replace it', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const where = { url: repo.url, clonePath: join(dir.path, 'mirror') };
  const head = await repo.commit({ 'm.rego': 'package a' });
  await using part = startPolicyPart(where);
  await part.serves(head);
  await rm(repo.path, { recursive: true });
  part.tracker.reportDamage();
  await part.tracker.refresh();
  assert.equal(part.tracker.status().state, 'failing');
  assert.equal((await part.bundle()).policy_modules.length, 1);
});

test('ssh gets the key as a private file and asks nothing', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const head = await repo.commit({ 'm.rego': 'package a' });
  // In place of ssh: notes its arguments, then runs the command that it was given for the other side.
  const bin = join(dir.path, 'bin');
  await mkdir(bin);
  await writeFile(
    join(bin, 'ssh'),
    `#!/bin/sh\necho "$@" >> '${dir.path}/args'\nfor last; do :; done\ncase "$last" in git-*) eval "$last";; esac\n`,
  );
  await chmod(join(bin, 'ssh'), 0o755);
  const clonePath = join(dir.path, "mirror's");
  await using part = startPolicyPart({
    url: `git@host.example:${repo.path}`,
    clonePath,
    sshKey: new Secret('-----BEGIN OPENSSH PRIVATE KEY-----_abc_-----END OPENSSH PRIVATE KEY-----'),
    env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
  });
  await part.serves(head);
  const args = await readFile(join(dir.path, 'args'), 'utf8');
  const keyFile = join(clonePath, 'policysync-ssh-key');
  assert(args.includes(`-i ${keyFile} -o IdentitiesOnly=yes`), args);
  assert.match(args, /StrictHostKeyChecking=accept-new .*BatchMode=yes .*git@host\.example/);
  assert.equal((await stat(keyFile)).mode & 0o777, 0o600);
  assert.equal(
    await readFile(keyFile, 'utf8'),
    '-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n',
  );
});

test('a mirror that is made anew keeps the ssh key that came as text', async () => {
  await using dir = await tempDir();
  await using repo = await gitRepo();
  const head = await repo.commit({ 'm.rego': 'package a' });
  // In place of ssh: refuses without the key file, then runs the command that it was given for the other side.
  const bin = join(dir.path, 'bin');
  const clonePath = join(dir.path, 'mirror');
  const keyFile = join(clonePath, 'policysync-ssh-key');
  await mkdir(bin);
  await writeFile(
    join(bin, 'ssh'),
    `#!/bin/sh\n[ -f '${keyFile}' ] || exit 255\nfor last; do :; done\ncase "$last" in git-*) eval "$last";; esac\n`,
    { mode: 0o755 },
  );
  const source = createGitSource(
    {
      url: `git@host.example:${repo.path}`,
      branch: 'master',
      clonePath,
      sshKey: new Secret('-----BEGIN PRIVATE KEY-----_abc_-----END PRIVATE KEY-----'),
      fetchTimeoutMs: 5_000,
      env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
    },
    { log: silentLogger() },
  );
  const { signal } = new AbortController();
  assert.equal(await source.fetch(signal), head);
  source.distrust();
  assert.equal(await source.fetch(signal), head);
  assert.equal((await stat(keyFile)).mode & 0o777, 0o600);
});

test('keys of hosts that lie beside the ssh key are the ones that ssh trusts', async (context) => {
  if (onPath('ssh') === undefined) return context.skip('there is no ssh on PATH: install OpenSSH');
  await using dir = await tempDir();
  const folder = join(dir.path, '100 % "ours"');
  await mkdir(folder);
  await writeFile(join(folder, 'key'), '-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n');
  const key = new Secret(join(folder, 'key'));
  const command = async (): Promise<string> => await sshCommandFor(key, join(dir.path, 'unused'));
  assert.match(await command(), /StrictHostKeyChecking=accept-new/);
  await writeFile(join(folder, 'known_hosts'), '');
  const { stdout } = await promisify(exec)(`${await command()} -F none -G git.example`);
  const said = stdout.split('\n');
  assert(said.includes('stricthostkeychecking true'), stdout);
  const files = said.find((line) => line.startsWith('userknownhostsfile '));
  assert(files?.includes(`${folder}/known_hosts`), files);
  assert.match(files ?? '', /\.ssh\/known_hosts /);
  await rm(join(folder, 'known_hosts'));
  await symlink('known_hosts', join(folder, 'known_hosts'));
  assert.match(await command(), /StrictHostKeyChecking=yes/, 'one that cannot be read pins all the same');
});

test('a URL cannot make git run a program', async () => {
  await using dir = await tempDir();
  const touched = join(dir.path, 'touched');
  const source = (url: string): ReturnType<typeof createGitSource> =>
    createGitSource(
      { url, clonePath: join(dir.path, 'mirror'), branch: 'master', fetchTimeoutMs: 5_000, env: process.env },
      { log: silentLogger() },
    );
  assert.throws(() => source(`ext::touch ${touched}`), { code: 'config_invalid' });
  await assert.rejects(source(`--upload-pack=touch ${touched}`).fetch(new AbortController().signal), {
    code: 'git_failed',
  });
  await assert.rejects(stat(touched), { code: 'ENOENT' });
});

/** Arguments of all processes. */
async function processes(): Promise<string> {
  const child = spawn('ps', ['-A', '-ww', '-o', 'args='], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk) => {
    text += chunk;
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 0, 'ps failed');
  return text;
}

/** Cuts every object file of a mirror to nothing, as a crash of the machine can. */
async function emptyObjects(mirror: string): Promise<void> {
  const entries = await readdir(join(mirror, 'objects'), { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name);
    await rm(path);
    await writeFile(path, '');
  }
}

test('a repository with SHA-256 is followed, also after one with SHA-1, and whatever the default of this user is', async () => {
  await using dir = await tempDir();
  const make = async (name: string, format: string): Promise<{ path: string; head: string }> => {
    const path = join(dir.path, name);
    await runGit(['init', '--quiet', '--initial-branch=master', `--object-format=${format}`, path]);
    await writeFile(join(path, 'm.rego'), `package ${name}\n`);
    await runGit(['-C', path, 'add', '.']);
    await runGit(['-C', path, 'commit', '--quiet', '--message=test']);
    return { path, head: await runGit(['-C', path, 'rev-parse', 'HEAD']) };
  };
  const sha1 = await make('a', 'sha1');
  const sha256 = await make('b', 'sha256');
  assert.deepEqual([sha1.head.length, sha256.head.length], [40, 64]);
  for (const format of ['sha1', 'sha256']) {
    const env = { ...process.env, GIT_DEFAULT_HASH: format };
    for (const { path, head } of [sha1, sha256]) {
      await using part = startPolicyPart({ url: path, clonePath: join(dir.path, `mirror-${format}-${head}`), env });
      await part.serves(head);
      assert.deepEqual((await part.bundle()).manifest, ['m.rego']);
      await part.tracker.refresh();
      assert.equal(part.tracker.status().error, undefined);
    }
  }
  // The repository is replaced by one of the other format at the same address.
  const clonePath = join(dir.path, 'mirror');
  {
    await using part = startPolicyPart({ url: sha1.path, clonePath });
    await part.serves(sha1.head);
  }
  await rm(sha1.path, { recursive: true });
  await rename(sha256.path, sha1.path);
  await using part = startPolicyPart({ url: sha1.path, clonePath });
  await until(() => part.tracker.head() === sha256.head, {
    withinMs: 20_000,
    what: `the new one; status ${JSON.stringify(part.tracker.status())}`,
  });
});

test('a remote that is a shallow clone is followed, and each commit that it gets', async () => {
  await using remote = await REMOTES['over file']();
  await remote.repo.commit({ 'm.rego': 'package a' });
  const second = await remote.repo.commit({ 'm.rego': 'package b' });
  const shallow = join(remote.clonePath, '..', 'shallow');
  await runGit(['clone', '--quiet', '--depth=1', remote.url, shallow]);
  await using part = startPolicyPart({ url: shallow, clonePath: remote.clonePath });
  await part.serves(second);
  await remote.repo.commit({ 'm.rego': 'package c' });
  const fourth = await remote.repo.commit({ 'd.rego': 'package d' });
  await runGit(['-C', shallow, 'pull', '--quiet', '--depth=1', '--force', 'origin', 'master']).catch(() => undefined);
  await runGit(['-C', shallow, 'reset', '--quiet', '--hard', fourth]);
  await part.tracker.refresh();
  await part.serves(fourth);
  const delta = await part.bundle([], second);
  assert.deepEqual([delta.old_hash, delta.manifest], [second, ['d.rego', 'm.rego']]);
});

test('with a user and no password in the address, a credential helper of the user is asked; without one it is a token', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
  const head = await repo.commit({ 'm.rego': 'package a' });
  await using server = await gitHttpServer(join(dir.path, 'remote'), AUTH);
  await writeFile(join(dir.path, 'kept'), `${server.url.replace('//', `//${CREDENTIALS}`)}\n`);
  await writeFile(join(dir.path, '.gitconfig'), `[credential]\n\thelper = store --file=${join(dir.path, 'kept')}\n`);
  const url = `${server.url.replace('//', `//${AUTH.user}@`)}/repo/.git`;
  {
    const env = { PATH: process.env.PATH ?? '', HOME: dir.path };
    await using part = startPolicyPart({ url, clonePath: join(dir.path, 'helped'), env });
    await part.serves(head);
  }
  const noHelper = { PATH: process.env.PATH ?? '', HOME: join(dir.path, 'nobody') };
  await using part = startPolicyPart({ url, clonePath: join(dir.path, 'alone'), env: noHelper });
  await until(() => part.tracker.status().error !== undefined, { withinMs: 20_000, what: 'it is not let in' });
  const asToken = `Basic ${Buffer.from(`${AUTH.user}:`).toString('base64')}`;
  assert(server.authorizations.includes(asToken), server.authorizations.join());
});

test('without a password in the address the program of GIT_ASKPASS is asked for it; with one it is not', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'remote', 'repo'));
  const head = await repo.commit({ 'm.rego': 'package a' });
  await using server = await gitHttpServer(join(dir.path, 'remote'), AUTH);
  const [asked, program] = [join(dir.path, 'asked'), join(dir.path, 'askpass')];
  await writeFile(
    program,
    `#!/bin/sh\necho "$1" >> '${asked}'\ncase "$1" in User*) echo ${AUTH.user};; *) echo '${AUTH.password}';; esac\n`,
    { mode: 0o755 },
  );
  const env = { PATH: process.env.PATH ?? '', HOME: join(dir.path, 'nobody'), GIT_ASKPASS: program };
  const places: [user: string, questions: RegExp][] = [
    ['', /^Username for 'http:.*'/],
    [`${AUTH.user}@`, /^Password for 'http:\/\/\w+@.*'/],
  ];
  for (const [index, [user, questions]] of places.entries()) {
    await rm(asked, { force: true });
    const url = `${server.url.replace('//', `//${user}`)}/repo/.git`;
    await using part = startPolicyPart({ url, clonePath: join(dir.path, `asks-${index}`), env });
    await part.serves(head);
    assert.match(await readFile(asked, 'utf8'), questions);
  }
  await rm(asked, { force: true });
  const wrong = `${server.url.replace('//', `//${AUTH.user}:wrong@`)}/repo/.git`;
  await using part = startPolicyPart({ url: wrong, clonePath: join(dir.path, 'silent'), env });
  await until(() => part.tracker.status().error !== undefined, { withinMs: 20_000, what: 'it is not let in' });
  await assert.rejects(readFile(asked), { code: 'ENOENT' });
});

test('an IPv6 address is a host like any other, with its credentials', async () => {
  await using remote = await REMOTES['over http with credentials']();
  const head = await remote.repo.commit({ 'm.rego': 'package a' });
  const port = Number(new URL(remote.url).port);
  const relay = createServer((socket) => {
    const upstream = connect(port, '127.0.0.1');
    socket.pipe(upstream).pipe(socket);
    for (const [end, other] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      end.on('error', () => end.destroy());
      end.on('close', () => other.destroy());
    }
  }).listen(0, '::1');
  await once(relay, 'listening');
  const address = relay.address() as AddressInfo;
  const url = remote.url.replace(`127.0.0.1:${port}`, `[::1]:${address.port}`);
  {
    await using part = startPolicyPart({ url, clonePath: remote.clonePath });
    await part.serves(head);
  }
  relay.close();
});

test('without a branch in the settings the one that HEAD of the remote names is followed, also when that changes', async () => {
  await using remote = await REMOTES['over http with credentials']();
  await remote.repo.git('checkout', '--quiet', '-b', 'trunk');
  const first = await remote.repo.commit({ 'm.rego': 'package a' });
  await using part = startPolicyPart({ ...remote, branch: undefined });
  await part.serves(first);
  const second = await remote.repo.commit({ 'm.rego': 'package b' });
  await part.tracker.refresh();
  assert.equal(part.tracker.head(), second);
  assert.equal((part.source as MirrorSource).defaultBranch, 'trunk');
  await remote.repo.git('checkout', '--quiet', '-b', 'live');
  const third = await remote.repo.commit({ 'm.rego': 'package c' });
  await part.tracker.refresh();
  assert.equal(part.tracker.head(), third);
  await remote.repo.git('symbolic-ref', 'HEAD', 'refs/heads/gone');
  await part.tracker.refresh();
  const { state, head, error } = part.tracker.status();
  assert.deepEqual([state, head], ['failing', third]);
  assert.match(error ?? '', /^HEAD of http:.* names no branch that exists; it has live, trunk$/);
});

test('a pointer of Git LFS is named as such, with what to do, and refuses the commit', async () => {
  await using remote = await REMOTES['over file']();
  const good = await remote.repo.commit({ 'm.rego': 'package a', 'notes.md': 'x' });
  await using part = startPolicyPart(remote);
  await part.serves(good);
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 12345\n`;
  for (const path of ['roles/data.json', 'm.rego']) {
    await remote.repo.commit({ [path]: pointer });
    await part.tracker.refresh();
    const { head, error } = part.tracker.status();
    assert.equal(head, good);
    assert.match(
      error ?? '',
      new RegExp(`${path} is a pointer of Git LFS, and its content is not in the repository: .*git lfs untrack`),
    );
    await remote.repo.git('reset', '--quiet', '--hard', good);
  }
  const other = await remote.repo.commit({ 'notes.md': pointer });
  await part.tracker.refresh();
  assert.equal(part.tracker.head(), other, 'what is not served may be one');
});
