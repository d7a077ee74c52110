import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from './support/repo.js';
import { filesBelow } from './support/repo-pages.js';

/** One name means one thing: who searches for it finds one definition. */

/** The same name on purpose: each is what its entry point of the package exports. */
const OF_ENTRY_POINTS = new Map([['policyGuard', ['src/middleware/express.ts', 'src/middleware/fastify.ts']]]);

const EXPORTED =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:class|function\*?|const|let|type|interface|enum) ([A-Za-z_$][\w$]*)/gm;

test('no exported name is defined in two files', () => {
  const files = filesBelow('src', /(?<!\.test|\.d)\.ts$/);
  assert(files.length > 400, `only ${files.length} files`);
  const definedIn = new Map<string, Set<string>>();
  for (const file of files) {
    for (const [, name = ''] of readFileSync(join(repoRoot(), file), 'utf8').matchAll(EXPORTED)) {
      definedIn.set(name, (definedIn.get(name) ?? new Set()).add(file));
    }
  }
  assert(definedIn.size > 1000, `only ${definedIn.size} names`);
  const twice = [...definedIn].filter(([, where]) => where.size > 1).map(([name, where]) => [name, [...where].sort()]);
  assert.deepEqual(new Map(twice as [string, string[]][]), OF_ENTRY_POINTS);
});
