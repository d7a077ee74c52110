import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createSpool } from '../../src/client/fetch/spool.js';
import { disposeDocuments, readBackup } from '../../src/client/offline/backup-reader.js';
import { removeLeftovers } from '../../src/client/offline/backup-writer.js';
import { tempDir } from '../support/temp-dir.js';

/** As many as it takes to hit a write. */
const ROUNDS = { least: 5, most: 40 };

test('a writer that is killed at any moment leaves a good backup, no older than the last that was done', async () => {
  await using dir = await tempDir();
  const path = join(dir.path, 'backup', 'opa.json');
  const spool = await createSpool({ dir: join(dir.path, 'read'), limitBytes: 100_000_000 });
  const program = join(import.meta.dirname, 'backup-writer.js');
  let last = 0;
  let interrupted = 0;
  for (let round = 0; round < ROUNDS.least || (interrupted === 0 && round < ROUNDS.most); round++) {
    const child = spawn(process.execPath, [program, path, join(dir.path, 'spool'), String(last + 1)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const gone = once(child, 'close');
    let printed = '';
    child.stdout.setEncoding('utf8');
    // From the first backup on it is always writing one; each round is killed at another moment of that.
    await once(child.stdout, 'data').then(([chunk]) => {
      printed += String(chunk);
    });
    child.stdout.on('data', (chunk: string) => {
      printed += chunk;
    });
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 40));
    child.kill('SIGKILL');
    await gone;

    const done = Math.max(...printed.trim().split('\n').map(Number));
    const backup = await readBackup(path, spool, new AbortController().signal);
    assert(backup !== undefined);
    assert.equal(backup.documents.length, 20);
    assert(backup.position.lastSeq >= done, `${backup.position.lastSeq} after ${done}`);
    last = backup.position.lastSeq;
    await disposeDocuments(backup.documents);
    if ((await readdir(join(dir.path, 'backup'))).length > 1) interrupted++;
    await removeLeftovers(path);
    assert.deepEqual(await readdir(join(dir.path, 'backup')), ['opa.json']);
  }
  assert(interrupted > 0, 'at least one was killed within a write');
});
