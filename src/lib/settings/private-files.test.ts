import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmod, mkdir, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../../test/support/temp-dir.js';
import {
  makeFolder,
  makePrivate,
  makeTreePrivate,
  openFolderProblem,
  readIfPresent,
  withPrivateFiles,
} from './private-files.js';

const posix = { skip: process.platform === 'win32' && 'Windows has no modes' };

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8);
}

test('a folder that others may read or write is named, with what to do', posix, async () => {
  await using dir = await tempDir();
  for (const [mode, all, write] of [
    [0o700, undefined, undefined],
    [0o755, /may be read by other users of this machine \(mode 755\): chmod 700 \//, undefined],
    [0o770, /may be written to by other users/, /mode 770/],
  ] as const) {
    await chmod(dir.path, mode);
    const [problem, writeProblem] = [
      await openFolderProblem(dir.path),
      await openFolderProblem(dir.path, { writeOnly: true }),
    ];
    assert.match(problem ?? 'none', all ?? /^none$/);
    assert.match(writeProblem ?? 'none', write ?? /^none$/);
  }
  assert.equal(await openFolderProblem(join(dir.path, 'nowhere')), undefined);
});

test('files are closed to others, in trees, too; links stay as they are', posix, async () => {
  await using dir = await tempDir();
  const [inside, outside, deep] = ['a', 'outside', 'tree/b/c'].map((name) => join(dir.path, name)) as [
    string,
    string,
    string,
  ];
  await mkdir(join(dir.path, 'tree', 'b'), { recursive: true });
  for (const file of [inside, outside, deep]) await writeFile(file, 'x', { mode: 0o644 });
  await chmod(deep, 0o444);
  await symlink(outside, join(dir.path, 'tree', 'link'));
  assert.deepEqual(await makePrivate([inside, join(dir.path, 'nothing')]), []);
  await makeTreePrivate(join(dir.path, 'tree'));
  assert.deepEqual(
    [await modeOf(inside), await modeOf(outside), await modeOf(deep), await modeOf(join(dir.path, 'tree', 'b'))],
    ['600', '644', '400', '700'],
  );
});

test('a program that is started so makes files that are closed, and the next one as before', posix, async () => {
  await using dir = await tempDir();
  const before = process.umask();
  const make = (name: string): unknown => execFileSync('touch', [join(dir.path, name)]);
  withPrivateFiles(() => make('closed'));
  assert.throws(() =>
    withPrivateFiles(() => {
      throw new Error('x');
    }),
  );
  assert.equal(process.umask(), before);
  assert.equal(await modeOf(join(dir.path, 'closed')), '600');
});

test('a file that is too long to be ours is not read', async () => {
  await using dir = await tempDir();
  const path = join(dir.path, 'long.json');
  assert.equal(await readIfPresent(path), undefined);
  await writeFile(path, '{}');
  assert.equal(await readIfPresent(path), '{}');
  await truncate(path, 65 * 1024 * 1024);
  await assert.rejects(readIfPresent(path), /long\.json has 68157440 bytes, more than 67108864/);
});

test(
  'a folder is made with those above it; what is there stays; where none can be made, it ends with words',
  posix,
  async () => {
    await using dir = await tempDir();
    const deep = join(dir.path, 'a', 'b', 'c');
    await Promise.all([makeFolder(deep), makeFolder(deep), makeFolder(join(dir.path, 'a', 'd'))]);
    assert.deepEqual([await modeOf(join(dir.path, 'a')), await modeOf(deep)], ['700', '700']);
    await chmod(deep, 0o750);
    await makeFolder(deep);
    assert.equal(await modeOf(deep), '750');
    await symlink(deep, join(dir.path, 'link'));
    await makeFolder(join(dir.path, 'link', 'e'));
    assert.equal(await modeOf(join(deep, 'e')), '700');
    await symlink(join(dir.path, 'nowhere'), join(dir.path, 'dangling'));
    await writeFile(join(dir.path, 'file'), '');
    for (const [path, code] of [
      ['dangling', 'EEXIST'],
      ['dangling/x', 'EEXIST'],
      ['file', 'EEXIST'],
      ['file/x', 'ENOTDIR'],
    ] as const) {
      await assert.rejects(makeFolder(join(dir.path, path)), { code }, path);
    }
  },
);

test('below a folder that takes none, which Node tries for ever', {
  skip: process.platform !== 'linux' && 'needs /proc',
}, async () => {
  for (const path of ['/proc/policysync', '/proc/policysync/state'])
    await assert.rejects(makeFolder(path), { message: 'no folder can be made in /proc' });
});
