import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import { parse } from 'yaml';
import { generatedPages } from '../scripts/lib/docs-pages.js';
import { OPA_VERSION } from '../src/client/engine/get-opa/opa-version.js';
import { CLIENT_SETTINGS } from '../src/client/options.js';
import { parseConfigFile } from '../src/lib/settings/config-file.js';
import { readSettings } from '../src/lib/settings/options.js';
import { envNames, flagName, type Setting, type Settings, secretFileFlag } from '../src/lib/settings/setting.js';
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

const SECTIONS = { server: SERVER_SETTINGS, client: CLIENT_SETTINGS };

/** Whether the schema accepts the text of a configuration file, as an editor reads it. */
const schemaAccepts = ((): ((text: string) => boolean) => {
  const schema = JSON.parse(read('schema/policysync.schema.json')) as object;
  const isValid = new Ajv({ strict: false, formats: { uri: (text: string) => URL.canParse(text) } }).compile(schema);
  return (text) => isValid(parse(text));
})();

/** Whether the program accepts one line of a configuration file. */
function programAccepts(section: keyof typeof SECTIONS, setting: Setting<unknown>, line: string): boolean {
  try {
    const file = parseConfigFile(`${section}:\n  ${line}\n`, 'it', SECTIONS).get(section);
    readSettings({ it: setting }, { env: {}, file });
    return true;
  } catch {
    return false;
  }
}

/** Values of every kind in all forms that YAML has for them. */
const FORMS = [
  ...[
    'x',
    '1.10',
    '"1.10"',
    '5',
    '"5"',
    ' "5 "',
    '0x1F',
    '007',
    '-3',
    '1e3',
    'true',
    'False',
    '"TRUE"',
    '" on "',
    'YES',
  ],
  ...[
    'no',
    'OFF',
    '1',
    '0',
    '2',
    'http://h:1/a',
    'ws://h',
    '10 per second',
    'none',
    'a:b',
    'a,b',
    'a=b',
    '[x, 2, true]',
  ],
  ...[
    '[]',
    '{}',
    "'[]'",
    "'{}'",
    'GIT',
    'git',
    'Api',
    'aws-s3',
    'DEBUG',
    'warning',
    'Critical',
    'auto',
    'AUTO',
    '~',
    '""',
  ],
  ...['{config: {entries: []}}', `'{"config":{"entries":[]}}'`, 'github', 'authzen/allow', '{callbacks: [http://h/x]}'],
  ...[`'{"callbacks":["http://h/x"]}'`, '{method: GET}', `'{"method":"GET"}'`, '{addr: x}', `'{"log-level":"debug"}'`],
];

test('the schema of the configuration file accepts each value in each form that the program accepts', () => {
  const refused: string[] = [];
  const forms = new Map<string, Set<string>>();
  for (const [section, settings] of Object.entries(SECTIONS) as [keyof typeof SECTIONS, Settings][]) {
    for (const setting of Object.values(settings)) {
      for (const form of FORMS) {
        const line = `${flagName(setting)}: ${form}`;
        if (!programAccepts(section, setting, line)) continue;
        const { kind } = setting.domain;
        forms.set(kind, (forms.get(kind) ?? new Set()).add(form));
        if (!schemaAccepts(`${section}:\n  ${line}\n`)) refused.push(`${section}: ${line}`);
      }
    }
  }
  assert.deepEqual(refused, []);
  // What both accept of each kind beside the form that editors offer.
  for (const [kind, expected] of Object.entries({
    text: ['1.10', '5', 'true', 'none'],
    number: ['5', '"5"', '0x1F'],
    flag: ['true', 'False', '"TRUE"', '" on "', 'YES', 'no', 'OFF', '1', '0'],
    choice: ['GIT', 'git', 'Api', 'aws-s3', 'DEBUG', 'warning', 'Critical', 'AUTO', 'true', 'YES', '0'],
    list: ['[x, 2, true]', '[]', 'a,b', 'a:b', '5'],
    json: ['{config: {entries: []}}', `'{"config":{"entries":[]}}'`, 'github', 'authzen/allow', '5', 'true'],
  })) {
    for (const form of expected) assert(forms.get(kind)?.has(form), `no setting of kind ${kind} takes ${form}`);
  }
});

test('the schema of the configuration file refuses what the program refuses of each kind', () => {
  for (const [section, setting, form] of [
    ['server', SERVER_SETTINGS.port, '"x"'],
    ['server', SERVER_SETTINGS.port, '[1]'],
    ['server', SERVER_SETTINGS.policyRepoBranch, '{a: 1}'],
    ['server', SERVER_SETTINGS.policyRepoBranch, '""'],
    ['server', SERVER_SETTINGS.policyRepoBranch, '~'],
    ['server', SERVER_SETTINGS.statisticsEnabled, 'maybe'],
    ['server', SERVER_SETTINGS.statisticsEnabled, '2'],
    ['server', SERVER_SETTINGS.logFormat, 'JSON'],
    ['server', SERVER_SETTINGS.logLevel, 'loud'],
    ['server', SERVER_SETTINGS.dataSources, 'x'],
    ['server', SERVER_SETTINGS.allowedHosts, '{a: b}'],
    ['client', CLIENT_SETTINGS.serverUrl, 'x'],
  ] as const) {
    const line = `${flagName(setting)}: ${form}`;
    assert(!programAccepts(section, setting, line), line);
    assert(!schemaAccepts(`${section}:\n  ${line}\n`), line);
  }
  const twice = 'client-token: x\n  client-token-file: /dev/null';
  assert(!programAccepts('client', CLIENT_SETTINGS.clientToken, twice));
  assert(!schemaAccepts(`client:\n  ${twice}\n`));
  assert(schemaAccepts('client:\n  client-token-file: /dev/null\n'));
});

test('the schema of the configuration file accepts what the page shows, and each default', () => {
  const page = read('docs/reference/settings.md');
  const [, example = ''] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  assert.equal(parseConfigFile(example, 'example', SECTIONS).size, 2);
  assert(schemaAccepts(example));
  for (const wrong of [
    'x: {}',
    'server: {x: 1}',
    'server: {server-bind-port: 70000}',
    'server: {log-level: loud}',
    'client: 3',
  ]) {
    assert(!schemaAccepts(wrong), wrong);
  }
  // Each default, written into a file, is accepted by both.
  for (const [name, settings] of Object.entries(SECTIONS) as [string, Settings][]) {
    const lines = Object.values(settings)
      .filter(({ defaultText }) => defaultText !== undefined && defaultText !== '')
      .map((setting) => `  ${flagName(setting)}: ${sampleOf(settings, flagName(setting))}`);
    const text = `${name}:\n${lines.join('\n')}\n`;
    const file = parseConfigFile(text, name, SECTIONS).get(name);
    assert.deepEqual(readSettings(settings, { env: {}, file }).values, readSettings(settings, { env: {} }).values);
    assert(schemaAccepts(text), text);
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
  const page = readFileSync(join(repoRoot(), 'docs', 'why', 'security-model.md'), 'utf8');
  const table = page.slice(page.indexOf('## Threat model'));
  const named = new Set([...table.matchAll(/`((?:src|test)\/[^`]*\.test\.ts)`/g)].map(([, file]) => file ?? ''));
  const suites = readdirSync(join(repoRoot(), 'test', 'security')).filter((file) => file.endsWith('.test.ts'));
  assert.deepEqual(
    suites.filter((file) => !named.has(`test/security/${file}`)),
    [],
    'attacks that no row of docs/why/security-model.md names',
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

test('docs/reference/errors.md escapes what would begin a tag, and shows no entity', () => {
  const page = read('docs/reference/errors.md');
  assert(!page.includes('&lt;'));
  const outside = page.replace(/`[^`]*`|<!--.*?-->/g, '');
  assert.doesNotMatch(outside, /(?<!\\)</);
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
