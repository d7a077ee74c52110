import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from './support/repo.js';

const SRC = join(repoRoot(), 'src');
/** Imports that are followed when a module is loaded: not those of types, and not `import(...)`. */
const STATIC = /(?:^|\n)(?:import|export)\s+(?!type\b)[^'";]*?\bfrom\s*'([^']+)'|(?:^|\n)import\s*'([^']+)'/g;

/** Every module and package that is loaded with a module of src/. */
function loadedWith(module: string, loaded = new Set<string>()): Set<string> {
  if (loaded.has(module)) return loaded;
  loaded.add(module);
  const text = readFileSync(join(SRC, `${module}.ts`), 'utf8');
  for (const [, from, alone] of text.matchAll(STATIC)) {
    const specifier = from ?? alone ?? '';
    if (!specifier.startsWith('.')) loaded.add(specifier);
    else loadedWith(posix.join(posix.dirname(module), specifier.replace(/\.js$/, '')), loaded);
  }
  return loaded;
}

for (const program of ['policysync', 'server', 'client']) {
  test(`${program}: a command loads what it runs when it is called, and nothing of the others`, () => {
    const loaded = loadedWith(`cli/${program}`);
    assert(loaded.size > 20 && loaded.has('commander'), [...loaded].join(' '));
    const heavy = [
      'fastify',
      'undici',
      'ws',
      'libsql',
      'jose',
      'server/server',
      'server/http',
      'client/client',
      'client/http',
    ];
    const early = [...heavy, 'cli/commands/check/run-check', 'cli/commands/completion/model'].filter((module) =>
      loaded.has(module),
    );
    assert.deepEqual(early, []);
    const parts =
      /^(?:server|client)\/(?:log|backbone|source|bundle|sessions|routes|engine|reconcile|offline|fetch|decisions)\//;
    assert.deepEqual(
      [...loaded].filter((module) => parts.test(module)),
      [],
    );
  });
}

test('the server loads nothing of the client, and the client nothing of the server', () => {
  for (const [module, other] of [
    ['server/server', 'client/'],
    ['client/client', 'server/'],
  ] as const) {
    const loaded = loadedWith(module);
    assert(loaded.size > 50);
    assert.deepEqual(
      [...loaded].filter((each) => each.startsWith(other)),
      [],
    );
  }
});
