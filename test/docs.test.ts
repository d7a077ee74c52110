import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { generatedPages } from '../scripts/lib/docs-pages.js';
import { CLIENT_SETTINGS } from '../src/client/options.js';
import { flagName } from '../src/lib/options.js';
import { SERVER_SETTINGS } from '../src/server/options.js';
import { repoRoot } from './support/repo.js';
import { anchor, exists, headings, pages, read } from './support/repo-pages.js';

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

test('the threat model names every suite of attacks, and only tests that are there', () => {
  const page = readFileSync(join(repoRoot(), 'docs', 'security.md'), 'utf8');
  const table = page.slice(page.indexOf('## Threat model'));
  const named = new Set([...table.matchAll(/`((?:src|test)\/[^`]*\.test\.ts)`/g)].map(([, file]) => file ?? ''));
  const suites = readdirSync(join(repoRoot(), 'test', 'security')).filter((file) => file.endsWith('.test.ts'));
  assert.deepEqual(
    suites.filter((file) => !named.has(`test/security/${file}`)),
    [],
    'attacks that no row of docs/security.md names',
  );
  assert.deepEqual(
    [...named].filter((file) => !existsSync(join(repoRoot(), file))),
    [],
  );
});

test('docs/internals/dependencies.md gives a reason for each dependency, and for no other', () => {
  const page = readFileSync(join(repoRoot(), 'docs', 'internals', 'dependencies.md'), 'utf8');
  const packages = JSON.parse(readFileSync(join(repoRoot(), 'package.json'), 'utf8')) as Record<string, object>;
  for (const [heading, member] of [
    ['## At run time', 'dependencies'],
    ['## For building and testing', 'devDependencies'],
  ] as const) {
    const [section = ''] = page.slice(page.indexOf(heading) + heading.length).split('\n## ');
    const rows = [...section.matchAll(/^\| `([^`]+)` \| ([^|]+) \|/gm)];
    assert.deepEqual(
      rows.map(([, name]) => name),
      Object.keys(packages[member] ?? {}),
      heading,
    );
  }
  const byHand = page.slice(page.indexOf('## Written by hand'));
  for (const [, path = ''] of byHand.matchAll(/`((?:lib|wire|auth|pubsub|server|client)\/[^`]*)`/g)) {
    assert(existsSync(join(repoRoot(), 'src', path)), path);
  }
});

test('no line of a page is longer than 140 characters, but in tables and code', () => {
  const long = pages().flatMap((page) => {
    const lines = read(page).split('\n');
    let isCode = false;
    return lines.flatMap((line, index) => {
      if (line.trimStart().startsWith('```')) isCode = !isCode;
      return isCode || line.startsWith('|') || line.length <= 140 ? [] : [`${page}:${index + 1}`];
    });
  });
  assert.deepEqual(long, []);
});

test('every link from a page to a file or a heading of the repository leads there', () => {
  const broken = pages().flatMap((page) =>
    [...read(page).matchAll(/\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].flatMap(([link, file = '', fragment]) => {
      const target = file === '' ? page : join(dirname(page), file);
      if (!exists(target)) return [`${page}: ${link}`];
      if (fragment === undefined) return [];
      return headings(read(target)).some((heading) => anchor(heading) === fragment) ? [] : [`${page}: ${link}`];
    }),
  );
  assert.deepEqual(broken, []);
});
