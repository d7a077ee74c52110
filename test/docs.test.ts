import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { generatedPages } from '../scripts/lib/docs-pages.js';
import { CLIENT_SETTINGS } from '../src/client/options.js';
import { flagName } from '../src/lib/options.js';
import { SERVER_SETTINGS } from '../src/server/options.js';
import { repoRoot } from './support/repo.js';

for (const [path, text] of generatedPages()) {
  test(`${path} says what the code says`, () => {
    assert.equal(readFileSync(join(repoRoot(), path), 'utf8'), text, `${path} is stale: run \`npm run docs\``);
  });
}

for (const [program, settings] of [
  ['sync-server', SERVER_SETTINGS],
  ['sync-client', CLIENT_SETTINGS],
] as const) {
  test(`${program}: no two settings share a name or a flag`, () => {
    const declared = Object.values(settings);
    for (const names of [declared.flatMap(({ env, aliases }) => [env, ...aliases]), declared.map(flagName)]) {
      assert.deepEqual(names.toSorted(), [...new Set(names)].toSorted());
    }
  });
}
