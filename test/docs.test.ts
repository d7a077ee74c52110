import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { generatedPages } from '../scripts/lib/docs-pages.js';
import { OPA_VERSION } from '../src/client/engine/opa-version.js';
import { CLIENT_SETTINGS } from '../src/client/options.js';
import { parseConfigFile } from '../src/lib/config-file.js';
import { loadSettings } from '../src/lib/options.js';
import { envNames, flagName, type Setting, type Settings, secretFileFlag } from '../src/lib/setting.js';
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
    const flags = declared.flatMap((setting) => [
      flagName(setting),
      ...(setting.secret ? [secretFileFlag(setting)] : []),
    ]);
    for (const names of [declared.flatMap(envNames), flags]) {
      assert.deepEqual(names.toSorted(), [...new Set(names)].toSorted());
    }
  });
}

test('the schema of the configuration file accepts what the page shows, and what the program accepts of each kind', () => {
  const page = read('docs/configuration.md');
  const [, example = ''] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  const sections = { server: SERVER_SETTINGS, client: CLIENT_SETTINGS };
  const isValid = new Ajv({ strict: false, formats: { uri: true } }).compile(
    JSON.parse(read('schema/policysync.schema.json')) as object,
  );
  const accepts = (text: string): boolean => isValid(parse(text));
  assert.equal(parseConfigFile(example, 'example', sections).size, 2);
  assert(accepts(example), JSON.stringify(isValid.errors));
  for (const wrong of [
    'x: {}',
    'server: {x: 1}',
    'server: {server-bind-port: 70000}',
    'server: {log-level: loud}',
    'client: 3',
  ]) {
    assert(!accepts(wrong), wrong);
  }
  // Each default, written into a file, is accepted by both.
  for (const [name, settings] of Object.entries(sections) as [string, Settings][]) {
    const lines = Object.values(settings)
      .filter(({ defaultText }) => defaultText !== undefined && defaultText !== '')
      .map((setting) => `  ${flagName(setting)}: ${sampleOf(settings, flagName(setting))}`);
    const text = `${name}:\n${lines.join('\n')}\n`;
    const file = parseConfigFile(text, name, sections).get(name);
    assert.deepEqual(loadSettings(settings, { env: {}, file }).values, loadSettings(settings, { env: {} }).values);
    assert(accepts(text), JSON.stringify(isValid.errors));
  }
});

/** The default of a setting as YAML, or a text. */
function sampleOf(settings: Settings, key: string): string {
  const setting = Object.values(settings).find((each: Setting<unknown>) => flagName(each) === key);
  const { domain, defaultText = 'x' } = setting ?? {};
  if (domain?.kind === 'list') return JSON.stringify(defaultText.split(domain.separator));
  return domain?.kind === 'number' || domain?.kind === 'flag' ? defaultText : JSON.stringify(defaultText);
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
  const rowsOf = (heading: string): (string | undefined)[] => {
    const [section = ''] = page.slice(page.indexOf(heading) + heading.length).split('\n## ');
    return [...section.matchAll(/^\| `([^`]+)` \| ([^|]+) \|/gm)].map(([, name]) => name);
  };
  assert.deepEqual(rowsOf('## Installed with it'), Object.keys(packages.dependencies ?? {}));
  assert.deepEqual(rowsOf('## Optional peers'), Object.keys(packages.peerDependencies ?? {}));
  // What is bundled, and what the tests need of the optional peers, is for development in the eyes of npm.
  const bundled = rowsOf('## Bundled');
  assert.deepEqual(bundled, bundled.toSorted());
  const forDevelopment = [...bundled, ...rowsOf('## Optional peers'), ...rowsOf('## For building and testing')];
  assert.deepEqual(forDevelopment.toSorted(), Object.keys(packages.devDependencies ?? {}).toSorted());
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

test('samples show the version of OPA that is pinned', () => {
  const others = pages().flatMap((page) =>
    [...read(page).matchAll(/^```.*?^```/gms)].flatMap(([block]) =>
      [...block.matchAll(/\bopa (\d+\.\d+\.\d+)|"opa_version": ?"([^"]+)"/gi)].flatMap(([sample, ...found]) =>
        found.includes(OPA_VERSION) ? [] : [`${page}: ${sample}`],
      ),
    ),
  );
  assert.deepEqual(others, []);
});
