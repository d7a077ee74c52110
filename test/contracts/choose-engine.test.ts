import assert from 'node:assert/strict';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { chooseEngine, type EngineChoice } from '../../src/client/engine/choose-engine.js';
import { CLIENT_SETTINGS } from '../../src/client/options.js';
import { SyncError } from '../../src/lib/errors.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { readSettings } from '../../src/lib/settings/options.js';
import { tempDir } from '../support/temp-dir.js';

/** The engine of a client on a machine whose PATH and cache folder are these. */

const posix = { skip: process.platform === 'win32' ? 'needs a POSIX shell' : false };

/** Whether an error is `engine_not_found` with such a message. */
function notFound(message: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert(error instanceof SyncError && error.code === 'engine_not_found', String(error));
    assert.match(error.message, message);
    return true;
  };
}

/** A machine without OPA, and what its programs would do if they were called. */
async function machine() {
  const dir = await tempDir();
  const bin = join(dir.path, 'bin');
  await mkdir(bin);
  const program = async (name: string, script: string): Promise<void> => {
    await writeFile(join(bin, name), `#!/bin/sh\n${script}\n`);
    await chmod(join(bin, name), 0o755);
  };
  const stop = new AbortController();
  const env = { PATH: bin, XDG_CACHE_HOME: join(dir.path, 'cache'), HTTPS_PROXY: 'http://127.0.0.1:1' };
  return {
    program,
    stop,
    choose: (settings: Record<string, string> = {}): Promise<EngineChoice> =>
      chooseEngine(readSettings(CLIENT_SETTINGS, { env: settings }).values, {
        log: silentLogger(),
        env,
        signal: stop.signal,
      }),
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await dir[Symbol.asyncDispose]();
    },
  };
}

test(
  'an OPA on this machine is run; where there is none, or only one that is too old, the engine is embedded',
  posix,
  async () => {
    await using at = await machine();
    const none = await at.choose();
    assert.equal(none.kind, 'embedded');
    assert.match(none.missing ?? '', /^there is no "opa" on PATH; .*cache.* does not exist yet$/);
    await at.program('opa', 'echo "Version: 0.70.0"');
    const old = await at.choose();
    assert.equal(old.kind, 'embedded');
    assert.match(old.missing ?? '', /is OPA 0\.70\.0, which is older than 1\.0\.0/);
    await at.program('opa', 'echo "Version: 1.2.3"');
    const inline = await at.choose();
    assert(inline.kind === 'inline');
    assert.deepEqual([inline.opa.version(), inline.opa.getting()], ['1.2.3', undefined]);
  },
);

test('a setting decides without a search', posix, async () => {
  await using at = await machine();
  await at.program('opa', 'exec /bin/sleep 60');
  assert.deepEqual(await at.choose({ SYNC_ENGINE: 'embedded' }), { kind: 'embedded' });
  assert.deepEqual(await at.choose({ SYNC_INLINE_ENGINE_ENABLED: 'false' }), { kind: 'external' });
  const inline = await at.choose({ SYNC_ENGINE: 'inline' });
  assert(inline.kind === 'inline');
  assert.equal(inline.opa.version(), undefined);
});

test(
  'SYNC_ENGINE=inline gets an OPA by all ways; a setting of the inline engine alone by none that needs a network',
  posix,
  async () => {
    await using at = await machine();
    const explicit = await at.choose({ SYNC_ENGINE: 'inline' });
    assert(explicit.kind === 'inline');
    await assert.rejects(explicit.opa.found, notFound(/the cache folder[\s\S]*download of OPA/));
    const implied = await at.choose({ SYNC_INLINE_ENGINE_OPEN: 'true' });
    assert(implied.kind === 'inline');
    await assert.rejects(
      implied.opa.found,
      notFound(/must work:\n {2}opa on PATH.*\n {2}the cache folder.*policysync opa get.*$/),
    );
  },
);

test('a stop during the search ends it', posix, async () => {
  await using at = await machine();
  await at.program('opa', 'exec /bin/sleep 60');
  const choosing = at.choose();
  at.stop.abort(new Error('asked to stop'));
  await assert.rejects(choosing, /asked to stop/);
});
