import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { access, mkdtemp, readdir, rm } from 'node:fs/promises';
import * as nodeModule from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);
const OWN = join(import.meta.dirname, 'run-program.js');
const LOADED = join(import.meta.dirname, 'program-settings.js');

/** Has a program with this environment keep its code and load a module. */
async function load(env: Record<string, string>): Promise<string> {
  const code = `(await import(${JSON.stringify(OWN)})).useCompileCache(process.env); await import(${JSON.stringify(LOADED)}); console.log('loaded');`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', code], { env });
  return stdout.trim();
}

it('keeps compiled code in the cache folder of the user, where this Node can', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'policysync-test-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  assert.equal(await load({ XDG_CACHE_HOME: dir }), 'loaded');
  const isKept = 'enableCompileCache' in nodeModule;
  const folder = join(dir, 'policysync', 'compile-cache');
  if (isKept) assert((await readdir(folder, { recursive: true })).length > 1);
  else await assert.rejects(access(folder), { code: 'ENOENT' });
});

it('is no hindrance where the folder cannot be written, or there is none', async () => {
  assert.equal(await load({ XDG_CACHE_HOME: '/dev/null' }), 'loaded');
  assert.equal(await load({}), 'loaded');
});
