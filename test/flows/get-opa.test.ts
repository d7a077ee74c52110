import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { runCommand, startCommand } from '../support/command.js';
import { testOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { tempDir } from '../support/temp-dir.js';

/** `sync-client get-opa` on a machine whose only tools are these. */

const posix = { skip: process.platform === 'win32' ? 'needs a POSIX shell' : false };

/** An environment without OPA where nothing can be downloaded; `go` is this script. */
async function machine(dir: string, goScript?: string): Promise<Record<string, string>> {
  const bin = join(dir, 'bin');
  await mkdir(bin);
  if (goScript !== undefined) {
    await writeFile(join(bin, 'go'), goScript);
    await chmod(join(bin, 'go'), 0o755);
  }
  return { PATH: bin, HOME: dir, XDG_CACHE_HOME: join(dir, 'cache'), HTTPS_PROXY: 'http://127.0.0.1:1', TMPDIR: dir };
}

test(
  'get-opa puts an OPA into the cache folder, prints version and path, and finds it there the next time',
  posix,
  async () => {
    await using dir = await tempDir();
    const go = `#!/bin/sh
printf '#!/bin/sh\\nexec "${await testOpa()}" "$@"\\n' > "$GOBIN/opa"
/bin/chmod 755 "$GOBIN/opa"
`;
    const env = await machine(dir.path, go);
    const first = await runCommand('client', ['get-opa'], env);
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stderr, /opa: .*; next: build of OPA/);
    const [, file = ''] = /^OPA \d+\.\d+\.\d+ at (.+)\n$/.exec(first.stdout) ?? assert.fail(first.stdout);
    assert(file.startsWith(join(dir.path, 'cache')), file);
    assert.match(await readFile(file, 'utf8'), /exec/);

    await writeFile(join(dir.path, 'bin', 'go'), '#!/bin/sh\nexit 1\n');
    const second = await runHere('client', ['get-opa'], env);
    assert.deepEqual([second.code, second.stdout], [0, first.stdout]);

    const onPath = await runHere('client', ['get-opa'], { ...env, PATH: dirname(file) });
    assert.deepEqual([onPath.code, onPath.stdout, onPath.stderr], [0, first.stdout, '']);
  },
);

test(
  'get-opa names every way that failed and ends with 1; a configured path that cannot be used is a mistake: 2',
  posix,
  async () => {
    await using dir = await tempDir();
    const env = await machine(dir.path);
    const { code, stdout, stderr } = await runHere('client', ['get-opa'], env);
    assert.deepEqual([code, stdout], [1, '']);
    assert.match(stderr, /opa on PATH[\s\S]*the cache folder[\s\S]*download of OPA[\s\S]*there is no "go" on PATH/);
    assert.match(stderr, /What to do: .*SYNC_ENGINE=embedded.*\[engine_not_found\]/);
    const configured = await runHere('client', ['get-opa'], {
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
  test(`get-opa that ${signal} stops ends with ${code}, and prints no failure`, posix, async () => {
    await using dir = await tempDir();
    const env = await machine(dir.path, '#!/bin/sh\n[ "$1" = version ] || exec /bin/sleep 60\n');
    await using command = startCommand('policysync', ['opa', 'get'], env);
    await command.says(/next: build of OPA/);
    command.process.kill(signal);
    const { code: ended, stdout, stderr } = await command.result;
    assert.deepEqual([ended, stdout], [code, '']);
    assert.doesNotMatch(stderr, /What to do|unexpected|stopped by/);
  });
}
