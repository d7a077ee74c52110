import assert from 'node:assert/strict';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type TempDir, tempDir } from '../../../test/support/temp-dir.js';
import { SyncError } from '../../lib/errors.js';
import { parsePatch } from '../../wire/json-patch.js';
import { createSpool, type Spool } from '../fetch/spool.js';
import type { BackupContent, BackupDocument } from './backup-format.js';
import { disposeDocuments, readBackup } from './backup-reader.js';
import { removeLeftovers, writeBackup } from './backup-writer.js';

const { signal } = new AbortController();
const HASH = 'a'.repeat(64);

async function spoolIn(dir: TempDir, name = 'spool'): Promise<Spool> {
  return createSpool({ dir: join(dir.path, name), limitBytes: 10_000_000, memoryLimitBytes: 100 });
}

async function put(
  spool: Spool,
  id: string,
  path: readonly string[],
  text: string,
  implied?: string[][],
): Promise<BackupDocument> {
  const body = await spool.spool([Buffer.from(text)], signal);
  const content = { kind: 'put' as const, body, ...(implied && { implied }) };
  return {
    layer: { id, path, rank: { era: 1, seq: 3, index: 0 }, content },
    blocked: undefined,
    entry: {
      origin: 'base',
      epoch: 'e1',
      saveMethod: 'PUT',
      topics: ['t'],
      fetched: { hash: body.hash, etag: '"1"', lastModified: 'then' },
    },
  };
}

/** One of everything that a backup can hold. */
async function sample(spool: Spool): Promise<BackupContent> {
  const large = JSON.stringify({ pad: 'x'.repeat(5000), text: 'ä "\\u0000" \n' });
  const patch = '[{"op":"add","path":"/a~1b/~0","value":12345678901234567890},{"op":"move","from":"/x","path":"/y"}]';
  const update = { origin: 'update', epoch: undefined, topics: ['t'], fetched: undefined } as const;
  return {
    createdMs: Date.parse('2026-01-02T03:04:05.006Z'),
    directories: ['app', 'lib'],
    scope: 'default',
    policy: {
      hash: 'c0ffee',
      modules: new Map([
        ['b.rego', 'package b\n\n# ü\n'],
        ['a.rego', 'package a\n'],
      ]),
      data: [{ folder: '.', text: '{"n": 1.0}\n' }],
    },
    position: {
      epoch: 'e1',
      era: 2,
      next: 7,
      lastSeq: 41,
      seen: new Map([['base/x', { hash: HASH, rank: { era: 1, seq: 2, index: 3 } }]]),
    },
    documents: [
      await put(spool, 'numbers', ['a', '1', 'ü/~'], '{ "big": 12345678901234567890,\n "one": 1.0, "e": 1E400 }'),
      await put(spool, 'large', ['large'], large),
      await put(spool, 'patched', ['p'], '{"a/b":{"c":1}}', [['a/b']]),
      { ...(await put(spool, 'blocked', ['b'], 'null')), blocked: 'a rule is there' },
      {
        layer: {
          id: 'p',
          path: [],
          rank: { era: 1, seq: 4, index: 1 },
          content: { kind: 'patch', ops: parsePatch(patch) },
        },
        blocked: undefined,
        entry: { ...update, saveMethod: 'PATCH' },
      },
      {
        layer: { id: 'd', path: ['gone'], rank: { era: 1, seq: 5, index: 0 }, content: { kind: 'delete' } },
        blocked: undefined,
        entry: { ...update, saveMethod: 'DELETE' },
      },
    ],
  };
}

/** A content with bodies as text, to compare. */
function plain(content: BackupContent): object {
  return {
    ...content,
    documents: content.documents.map(({ layer, ...rest }) => ({
      ...rest,
      layer: {
        ...layer,
        content: layer.content.kind === 'put' ? { ...layer.content, body: layer.content.body.text() } : layer.content,
      },
    })),
  };
}

test('a backup that is read is what was written, byte for byte', async () => {
  await using dir = await tempDir();
  const content = await sample(await spoolIn(dir));
  const path = join(dir.path, 'new', 'folder', 'opa.json');
  await writeBackup(path, content);
  const read = await readBackup(path, await spoolIn(dir, 'other'), signal);
  assert(read !== undefined);
  assert.deepEqual(plain(read), plain(content));
  const text = await readFile(path, 'utf8');
  assert(text.includes('{ "big": 12345678901234567890,\n "one": 1.0, "e": 1E400 }'));
  assert.equal((JSON.parse(text) as { format: string }).format, 'policysync-backup', 'it is one JSON document');
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  await disposeDocuments(read.documents);
  assert.deepEqual(await readdir(join(dir.path, 'other')), []);
});

test('a backup that was cut anywhere, or has a flipped bit anywhere, is refused, and nothing of it stays', async () => {
  await using dir = await tempDir();
  const path = join(dir.path, 'opa.json');
  await writeBackup(path, await sample(await spoolIn(dir)));
  const good = await readFile(path);
  const spool = await spoolIn(dir, 'other');
  const isRefused = async (bytes: Uint8Array): Promise<void> => {
    await writeFile(path, bytes);
    const read = readBackup(path, spool, signal);
    await assert.rejects(read, (error) => error instanceof SyncError && error.code === 'backup_invalid');
    assert.deepEqual(await readdir(join(dir.path, 'other')), []);
  };
  const cut = fc.asyncProperty(fc.nat(good.length - 1), (length) => isRefused(good.subarray(0, length)));
  await fc.assert(cut, { numRuns: 200, examples: [[0], [1], [good.length - 1], [good.length - 2]] });
  const flip = fc.asyncProperty(fc.nat(good.length - 1), fc.nat(7), (at, bit) => {
    const bytes = Buffer.from(good);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << bit);
    return isRefused(bytes);
  });
  await fc.assert(flip, { numRuns: 400 });
  await isRefused(Buffer.concat([good, Buffer.from('\n')]));
  await isRefused(Buffer.concat([good, good]));
});

const REFUSED: readonly [name: string, text: string, reason: RegExp][] = [
  ['an empty file', '', /not JSON/],
  ['no JSON', 'opa', /not JSON/],
  ['something else', '{"policies":[]}', /neither a backup of this program nor one of an OPAL client/],
  ['a later version', '{"format":"policysync-backup","version":2,"header":{},\n', /version 2.*reads version 1/],
  ['no version', '{"format":"policysync-backup","version":"1"\n', /version \?/],
  ['no header', '{"format":"policysync-backup","version":1}\n', /not a header/],
  ['a foreign header', '{"format":"policysync-backup","version":1,"header":{"a":1},\n', /header is not as documented/],
  ['an empty OPAL backup', '{"policies":{},"data":{}}', /neither policies nor data/],
  ['bytes that are no text', '\u00ff', /encoded data was not valid/],
];
for (const [name, text, reason] of REFUSED) {
  test(`a backup is refused with the reason: ${name}`, async () => {
    await using dir = await tempDir();
    const path = join(dir.path, 'opa.json');
    await writeFile(path, text, 'latin1');
    await assert.rejects(readBackup(path, await spoolIn(dir), signal), (error) => {
      assert(error instanceof SyncError);
      assert.match(error.message, reason);
      assert(!error.message.includes(dir.path), 'the message is shown to everyone');
      return true;
    });
  });
}

const CHANGED: readonly [name: string, from: string, to: string, reason: RegExp][] = [
  ['a changed number', '12345678901234567890', '12345678901234567891', /not the one that was saved/],
  ['a changed policy', 'package a', 'package z', /checksum/],
];
for (const [name, from, to, reason] of CHANGED) {
  test(`a good backup is refused with the reason once it has ${name}`, async () => {
    await using dir = await tempDir();
    const path = join(dir.path, 'opa.json');
    await writeBackup(path, await sample(await spoolIn(dir)));
    const good = await readFile(path, 'utf8');
    await writeFile(path, good.replace(from, to));
    await assert.rejects(readBackup(path, await spoolIn(dir, 'other'), signal), (error) => {
      assert(error instanceof SyncError);
      assert.match(error.message, reason);
      return true;
    });
  });
}

test('where there is no backup, none is read', async () => {
  await using dir = await tempDir();
  assert.equal(await readBackup(join(dir.path, 'none.json'), await spoolIn(dir), signal), undefined);
});

test("an OPAL client's backup is read, its numbers as they were written", async () => {
  await using dir = await tempDir();
  const path = join(dir.path, 'opa.json');
  const data = '{"users": {"n": 12345678901234567890, "f": 1.0}, "list": [1], "system": {"x": 1}}';
  await writeFile(path, `{"policies": {"a/b.rego": "package a.b\\n"}, "data": ${data}}`);
  const read = await readBackup(path, await spoolIn(dir), signal);
  assert.deepEqual([...(read?.policy?.modules ?? [])], [['a/b.rego', 'package a.b\n']]);
  assert.equal(read?.policy?.hash, '', 'it tells no commit, so it is no base of a delta');
  const documents = read?.documents.map(({ layer: { path: at, rank, content } }) => {
    assert(content.kind === 'put' && rank.era < 0, 'below static data');
    return [at, content.body.text()];
  });
  assert.deepEqual(documents, [
    [['users'], '{"n": 12345678901234567890, "f": 1.0}'],
    [['list'], '[1]'],
  ]);
});

test('a backup that cannot be written says so, and the one before stays', async () => {
  await using dir = await tempDir();
  const path = join(dir.path, 'opa.json');
  const spool = await spoolIn(dir);
  const content = await sample(spool);
  await writeBackup(path, content);
  const before = await readFile(path);
  // The file of a large document is gone.
  await disposeDocuments(content.documents);
  await assert.rejects(writeBackup(path, content), { code: 'backup_unwritable' });
  assert.deepEqual(await readFile(path), before);
  assert.deepEqual(await readdir(dir.path), ['opa.json', 'spool'], 'no half of a file is left');
});

test('what a killed writer left is removed, and nothing else', async () => {
  await using dir = await tempDir();
  const names = ['opa.json', 'opa.json.0123456789abcdef.tmp', 'opa.json.tmp', 'xopa.json.0123456789abcdef.tmp'];
  for (const name of names) await writeFile(join(dir.path, name), '');
  await removeLeftovers(join(dir.path, 'opa.json'));
  assert.deepEqual((await readdir(dir.path)).sort(), ['opa.json', 'opa.json.tmp', 'xopa.json.0123456789abcdef.tmp']);
  await removeLeftovers(join(dir.path, 'no', 'folder'));
});
