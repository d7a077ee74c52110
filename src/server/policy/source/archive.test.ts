import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { BAD_ARCHIVES, type CraftedEntry, TEST_LIMITS, tar, tarGz } from '../../../../test/support/archive.js';
import { tempDir } from '../../../../test/support/temp-dir.js';
import { ArchiveNames, archiveFiles, archivePath, checkArchive } from './archive.js';

const NEVER = new AbortController().signal;

/** What is read from an archive: path and text of each file. */
async function read(bytes: Buffer, limits = TEST_LIMITS): Promise<Map<string, string>> {
  await using dir = await tempDir();
  const file = join(dir.path, 'bundle.tar.gz');
  await writeFile(file, bytes);
  const files = new Map<string, string>();
  for await (const { path, sizeBytes, content } of archiveFiles(file, limits, NEVER)) {
    const chunks: Uint8Array[] = [];
    for await (const chunk of content) chunks.push(chunk);
    assert.equal(Buffer.concat(chunks).length, sizeBytes);
    files.set(path, Buffer.concat(chunks).toString());
  }
  return files;
}

async function readEntries(entries: readonly CraftedEntry[]): Promise<Record<string, string>> {
  return Object.fromEntries(await read(await tarGz(entries)));
}

test('reads files of every size and depth, in normal form', async () => {
  const long = `${'d'.repeat(90)}/${'e'.repeat(90)}/${'f'.repeat(90)}.rego`;
  const large = 'x'.repeat(200_000);
  assert.deepEqual(
    await readEntries([
      { name: './', type: 'directory' },
      { name: './a.rego', content: 'package a' },
      { name: 'dir/', type: 'directory' },
      { name: 'dir//./b.rego', content: large },
      { name: 'empty.rego' },
      { name: long, content: 'long' },
      { name: 'ünï/코드.rego', content: 'unicode' },
      { name: '.gitignore', content: 'no .git folder' },
      { name: '.manifest', content: 'a.rego' },
    ]),
    {
      'a.rego': 'package a',
      'dir/b.rego': large,
      'empty.rego': '',
      [long]: 'long',
      'ünï/코드.rego': 'unicode',
      '.gitignore': 'no .git folder',
      '.manifest': 'a.rego',
    },
  );
});

test('what macOS adds to an archive is left out, and its attributes do not matter', async () => {
  const pax = { 'LIBARCHIVE.xattr.com.apple.provenance': 'AQIA', 'SCHILY.xattr.x': '\u0001é', mtime: '1700000000.5' };
  assert.deepEqual(
    await readEntries([
      { name: './._.', content: 'Mac OS X' },
      { name: './._a.rego', content: '\0\u0005\u0016\u0007', pax },
      { name: './a.rego', content: 'package a', pax },
      { name: './b/._data.json', content: '\0\u0005\u0016\u0007' },
      { name: './b/data.json', content: '{}', pax },
      { name: './b/_._.rego', content: 'package b' },
    ]),
    { 'a.rego': 'package a', 'b/data.json': '{}', 'b/_._.rego': 'package b' },
  );
});

test('a slash before every name is the root of the archive; before some it is an absolute path', async () => {
  const file = (name: string): CraftedEntry => ({ name, content: 'x' });
  assert.deepEqual(Object.keys(await readEntries([file('/data.json'), file('/a/b.rego'), file('/.manifest')])), [
    'data.json',
    'a/b.rego',
    '.manifest',
  ]);
  await assert.rejects(readEntries([file('a.rego'), file('/b.rego')]), { message: /"\/b\.rego" is an absolute path/ });
  await assert.rejects(readEntries([file('/a.rego'), file('b.rego')]), {
    message: /"b\.rego" is a relative path among/,
  });
  await assert.rejects(readEntries([file('//etc/x')]), { message: /"\/\/etc\/x" is an absolute path/ });
  await assert.rejects(readEntries([file('/../x')]), { message: /leads out/ });
});

test('reads an archive that is compressed in several parts', async () => {
  const bytes = await tar([{ name: 'a.rego', content: 'package a' }]);
  const parts = Buffer.concat([gzipSync(bytes.subarray(0, 700)), gzipSync(bytes.subarray(700))]);
  assert.deepEqual([...(await read(parts)).keys()], ['a.rego']);
});

test('of several entries with one path the last counts', async () => {
  await using dir = await tempDir();
  const file = join(dir.path, 'bundle.tar.gz');
  const bytes = await tarGz([
    { name: 'a.rego', content: 'package old' },
    { name: './a.rego', content: 'package new' },
  ]);
  await writeFile(file, bytes);
  assert.equal(await checkArchive(file, TEST_LIMITS, NEVER), 1);
  assert.equal((await read(bytes)).get('a.rego'), 'package new');
});

for (const [which, { bytes, says }] of Object.entries(BAD_ARCHIVES)) {
  test(`refuses an archive ${which}`, async () => {
    await using dir = await tempDir();
    const file = join(dir.path, 'bundle.tar.gz');
    await writeFile(file, await bytes());
    await assert.rejects(checkArchive(file, TEST_LIMITS, NEVER), { code: 'bundle_archive_refused', message: says });
  });
}

test('stops a bomb where it gets too large, not when it is unpacked', async () => {
  await using dir = await tempDir();
  const file = join(dir.path, 'bundle.tar.gz');
  // A gigabyte of zeros in a megabyte: whole, its unpacking takes seconds.
  const megabytes = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  await writeFile(
    file,
    Buffer.concat([gzipSync((await tar([{ name: 'b', content: '' }])).subarray(0, 512)), ...Array(16).fill(megabytes)]),
  );
  const before = process.memoryUsage().rss;
  await assert.rejects(checkArchive(file, { ...TEST_LIMITS, unpackedBytes: 16 * 1024 * 1024 }, NEVER), {
    message: /unpacks to more than the 16777216 bytes/,
  });
  assert(process.memoryUsage().rss - before < 128 * 1024 * 1024, 'it is not held in memory');
});

test('a name is shown with its control characters written out, and never whole when it is huge', async () => {
  const name = `${'n'.repeat(100_000)}\n`;
  await assert.rejects(readEntries([{ name, content: 'x' }]), ({ message }: Error) => {
    assert(message.length < 400, message);
    return !message.includes('\n');
  });
});

test('ends when it is told to, and says so', async () => {
  await using dir = await tempDir();
  const file = join(dir.path, 'bundle.tar.gz');
  await writeFile(
    file,
    await tarGz([
      { name: 'a', content: 'x' },
      { name: 'b', content: 'y' },
    ]),
  );
  const stop = new AbortController();
  const reason = new Error('stopped');
  await assert.rejects(async () => {
    for await (const _ of archiveFiles(file, TEST_LIMITS, stop.signal)) stop.abort(reason);
  }, reason);
});

test('a file that is not there is no refusal of the archive', async () => {
  await assert.rejects(checkArchive('/nonexistent/bundle.tar.gz', TEST_LIMITS, NEVER), { code: 'ENOENT' });
});

test('a name becomes its normal form', () => {
  for (const [name, path] of [
    ['a/b.rego', 'a/b.rego'],
    ['./a//b/./c.rego', 'a/b/c.rego'],
    ['dir/', 'dir'],
    ['./', ''],
    ['..a/b..', '..a/b..'],
    ['.github/x', '.github/x'],
    ['a "b"/ c', 'a "b"/ c'],
  ] as const) {
    assert.equal(archivePath(name), path);
  }
});

test('a name that leads elsewhere, or that nobody can read, is refused', () => {
  for (const name of ['/a', '..', 'a/..', '../a', 'a/../b', 'a\\b', 'a\tb', 'a\u009bb', '\uFFFD', 'x/'.repeat(101)]) {
    assert.throws(() => archivePath(name), Error, JSON.stringify(name));
  }
  assert.throws(() => archivePath('x'.repeat(4_097)), /more than 4096 bytes/);
});

test('.git is refused however a file system may write it', () => {
  for (const name of ['.git', 'a/.git/b', '.GIT/x', 'GIT~1/x', '.git./x', '.git /x', 'a/.git']) {
    assert.throws(() => archivePath(name), /\.git folder/, name);
  }
});

test('a path is a file or a folder, whichever comes first', () => {
  const names = new ArchiveNames(100);
  names.add('a/b/c', 'file');
  names.add('a', 'folder');
  names.add('a/b/c', 'file');
  assert.throws(() => names.add('a/b', 'file'), /"a\/b" is both/);
  assert.throws(() => names.add('a/b/c/d', 'file'), /"a\/b\/c" is both/);
  assert.throws(() => names.add('', 'file'), /without a name/);
});

test('folders that only appear in names count', () => {
  const names = new ArchiveNames(3);
  names.add('a/b/c', 'file');
  names.add('a/b', 'folder');
  assert.throws(() => names.add('d', 'file'), /beyond the 3 files and folders/);
});
