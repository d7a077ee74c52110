import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompileFailure, mostTogether } from './most-together.js';
import type { CompiledSet } from './types.js';

const PATHS = Array.from({ length: 16 }, (_, index) => `app/r${index}`);

function compiling(fails: (paths: readonly string[]) => string | undefined) {
  const attempts: (readonly string[])[] = [];
  const compile = async (paths: readonly string[]): Promise<CompiledSet> => {
    attempts.push(paths);
    const reason = fails(paths);
    if (reason !== undefined) throw new CompileFailure(reason);
    const entrypoints = paths.map((path) => ({ path, compiled: true, reads: [] }));
    return { wasm: new TextEncoder().encode(paths.join()), entrypoints };
  };
  return { attempts, compile };
}

test('what compiles together is compiled once', async () => {
  const { attempts, compile } = compiling(() => undefined);
  const { set, failed } = await mostTogether(PATHS, compile);
  assert.deepEqual([set.entrypoints.length, failed.size, attempts.length], [16, 0, 1]);
});

test('whichever entrypoints fail, all others are compiled, and each has its own reason', async () => {
  for (const bad of [['app/r0'], ['app/r15'], ['app/r3', 'app/r4', 'app/r11'], PATHS]) {
    const first = (paths: readonly string[]) => paths.find((path) => bad.includes(path));
    const { compile } = compiling((paths) => {
      const found = first(paths);
      return found === undefined ? undefined : `${found} is too much`;
    });
    const { set, failed } = await mostTogether(PATHS, compile);
    const wanted = PATHS.filter((path) => !bad.includes(path));
    assert.deepEqual(
      set.entrypoints.map(({ path }) => path),
      wanted,
    );
    assert.equal(new TextDecoder().decode(set.wasm), wanted.join(), 'the module is that of the set');
    assert.deepEqual(
      [...failed],
      bad.map((path) => [path, `${path} is too much`]),
    );
  }
});

test('one that fails is found in few attempts', async () => {
  const { attempts, compile } = compiling((paths) => (paths.includes('app/r9') ? 'too much' : undefined));
  await mostTogether(PATHS, compile);
  assert(attempts.length <= 10, `${attempts.length} attempts`);
});

test('of two that fail only together, the first one stays', async () => {
  const { compile } = compiling((paths) =>
    paths.includes('app/r2') && paths.includes('app/r7') ? 'r2 and r7 have one name' : undefined,
  );
  const { set, failed } = await mostTogether(PATHS, compile);
  assert.deepEqual([...failed], [['app/r7', 'r2 and r7 have one name']]);
  assert.equal(set.entrypoints.length, 15);
});

test('another error is not about an entrypoint', async () => {
  const broken = new Error('no process can be started');
  await assert.rejects(
    mostTogether(PATHS, async () => {
      throw broken;
    }),
    broken,
  );
});
