import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type TempDir, tempDir } from '../../../test/support/temp-dir.js';
import { silentLogger } from '../../lib/observe/log.js';
import { bodyOfText } from '../../wire/json-node.js';
import { createSpool } from '../fetch/spool.js';
import { Backup, backupPath, defaultBackupPath } from './backup.js';
import { pinDocuments } from './backup-content.js';
import type { BackupContent } from './backup-format.js';

function content(text: string | undefined, seq = 1): BackupContent {
  const layer = { id: 'a', path: ['a'], rank: { era: 1, seq, index: 0 } };
  return {
    createdMs: Date.now(),
    directories: ['.'],
    scope: 'default',
    policy: undefined,
    position: { epoch: 'e', era: 1, next: 1, lastSeq: seq, seen: new Map() },
    documents:
      text === undefined
        ? []
        : [
            {
              layer: { ...layer, content: { kind: 'put', body: bodyOfText(text) } },
              blocked: undefined,
              entry: undefined,
            },
          ],
  };
}

/** A backup whose client holds what `now` says. */
function backupIn(dir: TempDir): { backup: Backup; path: string; now: { content: BackupContent | undefined } } {
  const path = join(dir.path, 'opa.json');
  const now = { content: undefined as BackupContent | undefined };
  const backup = new Backup(
    { path, intervalMs: 1000 },
    {
      capture: async () => (now.content === undefined ? undefined : { content: now.content, writes: 0 }),
      seal: async () => undefined,
      log: silentLogger(),
    },
  );
  return { backup, path, now };
}

test('a client that is not ready, or holds nothing, never takes the place of a good backup', async () => {
  await using dir = await tempDir();
  const { backup, path, now } = backupIn(dir);
  now.content = content('1');
  assert.equal(await backup.save(), 'saved');
  const good = await readFile(path);
  now.content = undefined;
  assert.equal(await backup.save(), 'nothing');
  now.content = content(undefined);
  assert.equal(await backup.save(), 'nothing');
  assert.deepEqual(await readFile(path), good);
});

test('a backup is written when a document or a position has changed, or the file is gone, and not otherwise', async () => {
  await using dir = await tempDir();
  const { backup, path, now } = backupIn(dir);
  now.content = content('1');
  assert.equal(await backup.save(), 'saved');
  const { ino } = await stat(path);
  now.content = content('1');
  assert.equal(await backup.save(), 'unchanged');
  assert.equal((await stat(path)).ino, ino);
  now.content = content('2');
  assert.equal(await backup.save(), 'saved');
  now.content = content('2', 2);
  assert.equal(await backup.save(), 'saved');
  const reconnected = content('2', 2);
  now.content = { ...reconnected, position: { ...reconnected.position, next: 9 } };
  assert.equal(await backup.save(), 'unchanged', 'a place that no update has is no change');
  await rm(path);
  assert.equal(await backup.save(), 'saved');
  await stat(path);
});

test('the engine is sealed when the file has what it holds, and not when that is not known', async () => {
  await using dir = await tempDir();
  const path = join(dir.path, 'opa.json');
  const sealed: [backup: string, writes: number][] = [];
  let writes: number | undefined = 1;
  const backup = new Backup(
    { path, intervalMs: 1000 },
    {
      capture: async () => ({ content: content('1'), writes }),
      seal: async (seal, at) => {
        assert((await readFile(path, 'utf8')).includes(`"id":"${seal.backup}"`), 'the file is there before the seal');
        sealed.push([seal.backup, at]);
      },
      log: silentLogger(),
    },
  );
  assert.equal(await backup.save(), 'saved');
  writes = undefined;
  assert.equal(await backup.save(), 'unchanged');
  writes = 3;
  assert.equal(await backup.save(), 'unchanged');
  await backup.settled();
  assert.deepEqual(
    sealed.map(([, at]) => at),
    [1, 3],
  );
  assert.equal(sealed[0]?.[0], sealed[1]?.[0], 'it is the same file');
});

test('a backup that was loaded is not written again until something has changed', async () => {
  await using dir = await tempDir();
  const { backup, now } = backupIn(dir);
  now.content = content('1');
  await backup.save();
  const { backup: next, now: later } = backupIn(dir);
  later.content = content('1');
  await next.loaded(content('1'));
  assert.equal(await next.save(), 'unchanged');
  assert(next.state.savedMs !== undefined);
});

test('a file that was refused is set aside, not overwritten', async () => {
  await using dir = await tempDir();
  const { backup, path, now } = backupIn(dir);
  await writeFile(path, 'of a later version');
  backup.refused('it has version 2');
  assert.deepEqual(backup.state, { savedMs: undefined, error: 'it has version 2' });
  assert.equal(await backup.save(), 'nothing');
  assert.equal(await readFile(path, 'utf8'), 'of a later version');
  now.content = content('1');
  assert.equal(await backup.save(), 'saved');
  assert.equal(await readFile(`${path}.refused`, 'utf8'), 'of a later version');
  assert.equal(backup.state.error, undefined);
});

test('a failed save is told until one succeeds', async () => {
  await using dir = await tempDir();
  const { backup, path, now } = backupIn(dir);
  now.content = content('1');
  // A folder at the place of the file: nothing can be renamed onto it.
  await mkdir(join(path, 'x'), { recursive: true });
  await assert.rejects(backup.save(), { code: 'backup_unwritable' });
  assert.match(backup.state.error ?? '', /cannot be written: (EISDIR|ENOTEMPTY|EEXIST)/);
  assert.deepEqual(await readdir(dir.path), ['opa.json']);
  await rm(path, { recursive: true });
  await backup.saveOrTell();
  assert.equal(backup.state.error, undefined);
  assert(backup.state.savedMs !== undefined);
});

test('documents that are replaced while a backup is written stay readable until it is done', async () => {
  await using dir = await tempDir();
  const spool = await createSpool({ dir: join(dir.path, 'spool'), limitBytes: 1000, memoryLimitBytes: 1 });
  const body = await spool.spool([Buffer.from('"large"')], new AbortController().signal);
  const [document] = content('1').documents;
  assert(document !== undefined);
  const unpin = pinDocuments([{ ...document, layer: { ...document.layer, content: { kind: 'put', body } } }]);
  await body.dispose();
  assert.equal(body.text(), '"large"');
  await unpin();
  await unpin();
  assert.deepEqual(await readdir(join(dir.path, 'spool')), []);
});

test('the backup lies in the state folder of the user', () => {
  assert.equal(defaultBackupPath({ XDG_STATE_HOME: '/state' }), '/state/policysync/backup/opa.json');
  assert.equal(defaultBackupPath({ HOME: '/home/a' }), '/home/a/.local/state/policysync/backup/opa.json');
  assert.equal(
    defaultBackupPath({ HOME: '/home/a', XDG_STATE_HOME: 'relative' }),
    '/home/a/.local/state/policysync/backup/opa.json',
  );
});

test('a failed write is over once the file has what the client holds, also without another write', async () => {
  await using dir = await tempDir();
  const { backup, path, now } = backupIn(dir);
  now.content = content('1');
  assert.equal(await backup.save(), 'saved');
  now.content = content('2');
  await rm(`${dir.path}`, { recursive: true });
  await writeFile(dir.path, 'a file where the folder was');
  await assert.rejects(backup.save(), { code: 'backup_unwritable' });
  assert.notEqual(backup.state.error, undefined);
  await rm(dir.path);
  await mkdir(dir.path);
  now.content = content('1');
  await writeFile(path, 'the file of before');
  assert.equal(await backup.save(), 'unchanged');
  assert.equal(backup.state.error, undefined);
});

test('without offline mode no backup needs a path, nor a home folder', () => {
  const none = (): string | undefined => undefined;
  assert.equal(backupPath({ backupPath: undefined, offlineModeEnabled: false }, {}, none), undefined);
  assert.equal(backupPath({ backupPath: '/b', offlineModeEnabled: true }, {}, none), '/b');
  assert.throws(() => backupPath({ backupPath: undefined, offlineModeEnabled: true }, {}, none), {
    message: 'HOME is not set, and this user has no home folder: set SYNC_STORE_BACKUP_PATH',
  });
});
