import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { cachedOpa } from '../support/cached-opa.js';
import { runCommand, startCommand } from '../support/command.js';
import { testOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { tempDir } from '../support/temp-dir.js';

/** `opa get` on a machine where nothing can be downloaded. */

const posix = { skip: process.platform === 'win32' ? 'needs a POSIX shell' : false };

test('opa get finds an OPA in the cache folder, or on PATH, and prints version and path', posix, async () => {
  await using dir = await tempDir();
  const { env, file } = await cachedOpa(dir.path, `exec "${await testOpa()}" "$@"`);
  const first = await runCommand('policysync', ['opa', 'get'], env);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stderr, /opa: .*; next: the cache folder/);
  const [, found = ''] = /^OPA \d+\.\d+\.\d+ at (.+)\n$/.exec(first.stdout) ?? assert.fail(first.stdout);
  assert.equal(found, file);

  const second = await runHere('policysync', ['opa', 'get'], env);
  assert.deepEqual([second.code, second.stdout], [0, first.stdout]);

  const onPath = await runHere('policysync', ['opa', 'get'], { ...env, PATH: dirname(file) });
  assert.deepEqual([onPath.code, onPath.stdout, onPath.stderr], [0, first.stdout, '']);
});

test(
  'opa get names every way that failed and ends with 1; a configured path that cannot be used is a mistake: 2',
  posix,
  async () => {
    await using dir = await tempDir();
    const bin = join(dir.path, 'bin');
    await mkdir(bin);
    const env = { PATH: bin, HOME: dir.path, HTTPS_PROXY: 'http://127.0.0.1:1', TMPDIR: dir.path };
    const { code, stdout, stderr } = await runHere('policysync', ['opa', 'get'], env);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /opa on PATH[\s\S]*the cache folder[\s\S]*download of OPA/);
    assert.match(
      stderr,
      /What to do: Put `opa` on PATH, .*SYNC_INLINE_ENGINE_EXEC_PATH, .*SYNC_ENGINE=embedded.*\[engine_not_found\]/,
    );
    const configured = await runHere('policysync', ['opa', 'get'], {
      ...env,
      SYNC_INLINE_ENGINE_EXEC_PATH: '/nowhere/opa',
    });
    assert.equal(configured.code, 2);
    assert.match(configured.stderr, /SYNC_INLINE_ENGINE_EXEC_PATH: \/nowhere\/opa does not exist/);
  },
);

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  test(`opa get that ${signal} stops ends with ${code}, and prints no failure`, posix, async () => {
    await using dir = await tempDir();
    const { env } = await cachedOpa(dir.path, 'exec /bin/sleep 60');
    await using command = startCommand('policysync', ['opa', 'get'], env);
    await command.says(/next: the cache folder/);
    command.process.kill(signal);
    const { code: ended, stdout, stderr } = await command.result;
    assert.deepEqual([ended, stdout], [code, '']);
    assert.doesNotMatch(stderr, /What to do|unexpected|stopped by/);
  });
}
