import assert from 'node:assert/strict';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../../../test/support/temp-dir.js';
import { silentLogger } from '../../../lib/observe/log.js';
import { EntrypointFile } from './entrypoint-file.js';

const log = silentLogger();

test('gives the next run of the same client what this one has written, and no other client', async () => {
  await using dir = await tempDir();
  const env = { XDG_CACHE_HOME: dir.path };
  const first = new EntrypointFile('one', { env, log });
  assert.deepEqual(await first.read(), []);
  await first.write([]);
  await first.write(['app/allow', 'app/deny']);
  assert.deepEqual(await new EntrypointFile('one', { env, log }).read(), ['app/allow', 'app/deny']);
  assert.deepEqual(await new EntrypointFile('two', { env, log }).read(), []);
});

test('what is damaged, too large or of another form is as if it were not there, and is replaced', async () => {
  await using dir = await tempDir();
  const env = { XDG_CACHE_HOME: dir.path };
  const file = new EntrypointFile('one', { env, log });
  await file.write(['app/allow']);
  const folder = join(dir.path, 'policysync', 'entrypoints');
  const path = join(folder, (await readdir(folder))[0] ?? '');
  assert.equal((await stat(path)).mode & 0o077, 0, 'readable by its owner alone');
  for (const text of ['{', '[]', '{"entrypoints":[1]}', '{"entrypoints":[],"more":1}', ' '.repeat(2 * 1024 * 1024)]) {
    await writeFile(path, text);
    assert.deepEqual(await new EntrypointFile('one', { env, log }).read(), [], text.slice(0, 20));
  }
  const again = new EntrypointFile('one', { env, log });
  await again.read();
  await again.write(['app/allow']);
  assert.equal(await readFile(path, 'utf8'), '{"entrypoints":["app/allow"]}\n');
});

test('a folder that cannot be written to, or none at all, is no failure', async () => {
  await using dir = await tempDir();
  await writeFile(join(dir.path, 'policysync'), '');
  for (const env of [{ XDG_CACHE_HOME: dir.path }, {}]) {
    const file = new EntrypointFile('one', { env, log });
    await file.write(['app/allow']);
    assert.deepEqual(await file.read(), []);
  }
});
