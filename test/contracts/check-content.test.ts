import assert from 'node:assert/strict';
import { mkdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { describe, it } from 'node:test';
import { type CheckedContent, openContent } from '../../src/cli/commands/check/open-content.js';
import { Secret } from '../../src/lib/observe/log.js';
import { gitRepo } from '../support/git-repo.js';
import { tempDir } from '../support/temp-dir.js';

async function open(target: string, of: { branch?: string; commit?: string } = {}): Promise<CheckedContent> {
  const request = { target, branch: undefined, commit: undefined, sshKey: undefined, fetchTimeoutMs: 0, ...of };
  return await openContent(request, process.env);
}

/** The files with their texts. */
async function files({ objects, hash }: CheckedContent): Promise<Record<string, string>> {
  const tree = await objects.files(hash);
  const contents = await objects.blobs(tree.map(({ blob }) => blob));
  return Object.fromEntries(tree.map(({ path, blob }) => [path, contents.get(blob)?.toString() ?? '']));
}

describe('what is checked', () => {
  it('a work tree as it lies on disk, a branch, a commit, or a repository elsewhere', async () => {
    await using repo = await gitRepo();
    const first = await repo.commit({ 'a.rego': '1', 'link.rego': { link: 'a.rego' }, '.gitignore': 'local/' });
    const second = await repo.commit({ 'a.rego': '2', 'gone.rego': 'x' });
    await repo.git('branch', 'other', first);
    await repo.git('rm', '--quiet', '--cached', 'gone.rego');
    await writeFile(join(repo.path, 'new.rego'), 'new');
    const at = { '.gitignore': 'local/' };

    await using disk = await open(repo.path);
    assert.deepEqual(await files(disk), { ...at, 'a.rego': '2', 'gone.rego': 'x', 'new.rego': 'new' });
    assert.deepEqual([disk.commit, disk.links], [null, ['link.rego']]);
    await using branch = await open(repo.path, { branch: 'other' });
    assert.deepEqual(
      [branch.commit, await files(branch), branch.links],
      [first, { ...at, 'a.rego': '1' }, ['link.rego']],
    );
    await using short = await open(repo.path, { commit: first.slice(0, 8) });
    assert.equal(short.commit, first);
    await using elsewhere = await open(repo.url);
    assert.equal(elsewhere.commit, second); // of the default branch
    await using older = await open(repo.url, { commit: first });
    assert.deepEqual(await files(older), { ...at, 'a.rego': '1' });
    await using bare = await open(join(repo.path, '.git'));
    assert.equal(bare.commit, second);
  });

  it('no file of somewhere else, where a folder of the repository has become a link', async () => {
    await using repo = await gitRepo();
    await using other = await tempDir();
    await writeFile(join(other.path, 'data.json'), 'hush');
    await mkdir(join(other.path, 'deep'));
    await writeFile(join(other.path, 'deep', 'a.rego'), 'hush');
    await repo.commit({ 'a/data.json': '1', 'b/c/data.json': '2', 'b/c/deep/a.rego': '3', 'b/d.rego': '4' });
    for (const path of ['a', 'b/c']) {
      await rm(join(repo.path, path), { recursive: true });
      await symlink(other.path, join(repo.path, path));
    }
    const bare = join(other.path, 'by-link');
    await symlink(repo.path, bare);
    for (const target of [repo.path, bare, join(repo.path, 'b')]) {
      await using content = await open(target);
      const below = target.endsWith('/b') ? '' : 'b/';
      assert.deepEqual(await files(content), { [`${below}d.rego`]: '4' }, target);
      assert.deepEqual(content.links, below === '' ? ['c'] : ['a', 'b/c'], target);
    }
  });

  it('a repository behind ssh, by the key that is given, with and without a branch', async () => {
    await using repo = await gitRepo();
    const commit = await repo.commit({ 'a.rego': '1' });
    await using dir = await tempDir();
    // Runs what git asks of the host here; without the key it refuses.
    const ssh = `#!/bin/sh\ncase "$*" in *"-i ${join(dir.path, 'deploy')} "*) for last; do :; done; exec sh -c "$last" ;; *) exit 255 ;; esac\n`;
    await writeFile(join(dir.path, 'ssh'), ssh, { mode: 0o755 });
    const env = { ...process.env, PATH: `${dir.path}${delimiter}${process.env.PATH}` };
    await writeFile(join(dir.path, 'deploy'), '-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n');
    const sshKey = new Secret(join(dir.path, 'deploy'));
    for (const branch of ['master', undefined]) {
      const request = {
        target: `ssh://git@host.example${repo.path}`,
        branch,
        commit: undefined,
        sshKey,
        fetchTimeoutMs: 0,
      };
      await using content = await openContent(request, env);
      assert.equal(content.commit, commit, branch);
    }
  });

  it('a folder of a work tree is a root of its own, and one that git ignores is read as a plain one', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'policies/a/a.rego': '1', 'b.rego': '2', '.gitignore': 'local/' });
    await using folder = await open(join(repo.path, 'policies'));
    assert.deepEqual(await files(folder), { 'a/a.rego': '1' });
    await using dir = await tempDir();
    await writeFile(join(dir.path, 'b.rego'), '2');
    await writeFile(join(dir.path, 'a.rego'), '1');
    await using plain = await open(dir.path);
    assert.deepEqual(await files(plain), { 'a.rego': '1', 'b.rego': '2' });
  });

  it('a work tree without a git program is read as a plain folder, and that is said', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'a.rego': '1', '.gitignore': 'local/' });
    await mkdir(join(repo.path, 'local'));
    await writeFile(join(repo.path, 'local', 'b.rego'), '2');
    await using nothing = await tempDir();
    const request = { target: repo.path, branch: undefined, commit: undefined, sshKey: undefined, fetchTimeoutMs: 0 };
    await using content = await openContent(request, { PATH: nothing.path });
    assert.deepEqual(await files(content), { '.gitignore': 'local/', 'a.rego': '1', 'local/b.rego': '2' });
    assert.match(content.text, /as it lies on disk, with the files that git ignores: there is no git program/);
  });

  it('nothing that no bundle can have, however little it takes on disk: no file is read', async () => {
    await using folder = await tempDir();
    const path = join(folder.path, 'zeros.rego');
    await writeFile(path, '');
    await truncate(path, 3 * 2 ** 30);
    await using content = await open(folder.path);
    const { rss } = process.memoryUsage();
    await assert.rejects(
      files(content),
      /has 3072 MiB of modules and data, .* at most 256 MiB; the largest is zeros\.rego/,
    );
    assert(process.memoryUsage().rss - rss < 100 * 2 ** 20);
  });

  it('says what is not there', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'a.rego': '1' });
    await using dir = await tempDir();
    await repo.git('branch', 'other/one');
    for (const place of [repo.path, repo.url])
      await assert.rejects(
        open(place, { branch: 'nowhere' }),
        /branch nowhere does not exist in .*; it has master, other\/one$/,
      );
    await assert.rejects(open(repo.url, { commit: 'abcdef12' }), /has no commit abcdef12/);
    await assert.rejects(open(dir.path, { branch: 'x' }), /is in no git repository: leave out --branch/);
    await assert.rejects(open(join(dir.path, 'x')), /there is no folder .* and it is no address/);
  });
});
