import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repoRoot } from './support/repo.js';
import { filesBelow, read } from './support/repo-pages.js';

/** What lets test files share a process, and how test/plan.json arranges a run. */

const FILES = ['src', 'test'].flatMap((folder) => filesBelow(folder, /\.test\.ts$/));

test('test/plan.json names only test files that are there, and says why one is alone', () => {
  const { alone, seconds } = JSON.parse(read('test/plan.json')) as {
    alone: Record<string, string>;
    seconds: Record<string, number>;
  };
  const named = [...Object.keys(alone), ...Object.keys(seconds)];
  assert(named.length > 10);
  const gone = named.filter((name) => !existsSync(join(repoRoot(), `${name}.test.ts`)));
  assert.deepEqual(gone, []);
  for (const [name, reason] of Object.entries(alone)) assert.match(reason, /\w+ \w+/, name);
});

test('hooks stand inside a describe: those of a whole file would run for every file of the same process', () => {
  assert(FILES.length > 400, `only ${FILES.length} files`);
  const hook = /^(?:before|beforeEach|afterEach)\(/m;
  assert.deepEqual(
    FILES.filter((file) => hook.test(readFileSync(join(repoRoot(), file), 'utf8'))),
    [],
  );
});
