import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, it } from 'node:test';
import * as z from 'zod';
import { cpuTimer } from '../../../test/support/cpu-time.js';
import { parseConfigFile, readConfigFile } from './config-file.js';
import { readSettings } from './options.js';
import type { Settings } from './setting.js';
import {
  choiceSetting,
  flagSetting,
  jsonSetting,
  listSetting,
  numberSetting,
  pathSetting,
  secretSetting,
  textSetting,
} from './setting-kinds.js';

const SERVER = {
  port: numberSetting('SYNC_PORT', 'A port.', { default: 1, max: 9999 }),
  branch: textSetting('SYNC_MAIN_BRANCH', 'A branch.', { default: 'main' }),
  isOn: flagSetting('SYNC_IS_ON', 'A flag.'),
  compat: choiceSetting('SYNC_COMPAT', 'A choice.', { choices: ['auto', 'true'], default: 'auto' }),
  dirs: listSetting('SYNC_DIRS', 'A list.', { separator: ':' }),
  sources: jsonSetting('SYNC_SOURCES', 'JSON.', { schema: z.unknown() }),
  state: pathSetting('SYNC_STATE', 'A folder.', { form: 'folder' }),
  modules: listSetting('SYNC_MODULES', 'Files.', { ofPaths: true }),
  token: secretSetting('SYNC_TOKEN', 'A secret.'),
  kept: numberSetting('SYNC_RETENTION', 'A time.', { default: 1, formerly: 'SYNC_KEPT' }),
} satisfies Settings;
const SECTIONS = { server: SERVER, client: { url: textSetting('SYNC_URL', 'A URL.') } };

/** The values of the section `server` of a text. */
function load(text: string, env: Record<string, string> = {}, flags: Record<string, string> = {}) {
  const file = parseConfigFile(text, 'p.yaml', SECTIONS).get('server');
  return readSettings(SERVER, { env, flags, file });
}

/** What is said of a text, line by line. */
function problems(text: string): string[] {
  try {
    load(text);
  } catch (error) {
    return (error as Error).message.split('\n  ').slice(1);
  }
  return [];
}

function withFile<T>(text: string, mode: number, work: (path: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'config-'));
  try {
    const path = join(folder, 'policysync.yaml');
    writeFileSync(path, text);
    chmodSync(path, mode);
    return work(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe('the configuration file', () => {
  it('has values of every kind, as they are written', () => {
    const { values, origins, texts } = load(`
server:
  port: 7002
  main-branch: 1.10
  is-on: true
  compat: true
  dirs: [a, 'b c', 3]
  sources:
    big: 12345678901234567890
    small: 1.0
    hex: 0x1F
    list: [~, true, "x\\n", {a: {}}]
  state: ~/state
  modules: [~/a.js, b.js]
  token: hush
`);
    assert.deepEqual(
      { ...values, token: values.token?.reveal(), sources: undefined },
      {
        ...{ port: 7002, branch: '1.10', isOn: true, compat: 'true', dirs: ['a', 'b c', '3'], token: 'hush', kept: 1 },
        ...{
          state: join(process.env.HOME ?? '', 'state'),
          modules: [join(process.env.HOME ?? '', 'a.js'), resolve('b.js')],
        },
        sources: undefined,
      },
    );
    assert.equal(texts.sources, '{"big":12345678901234567890,"small":1.0,"hex":31,"list":[null,true,"x\\n",{"a":{}}]}');
    assert.deepEqual(origins.port, { file: 'p.yaml', line: 3 });
    assert.equal(origins.kept, 'default');
    assert.equal(texts.token, undefined);
  });

  it('takes lists and JSON as one text, too, and sections with nothing in them', () => {
    const { values } = load('server:\n  dirs: a:b\n  sources: \'{"a": 1}\'\n');
    assert.deepEqual([values.dirs, values.sources], [['a', 'b'], { a: 1 }]);
    for (const text of ['', '# nothing\n', 'server:\n', 'server: {}\nclient:\n', '---\n', '\uFEFFserver:\n']) {
      assert.equal(load(text).values.port, 1, text);
    }
  });

  it('counts before the default, after the environment, after the flags', () => {
    const text = 'server:\n  port: 2\n';
    assert.equal(load(text).values.port, 2);
    assert.equal(load(text, { SYNC_PORT: '3' }).values.port, 3);
    assert.equal(load(text, { OPAL_PORT: '3' }).values.port, 3);
    assert.equal(load(text, { SYNC_PORT: '' }).values.port, 2);
    assert.equal(load(text, { SYNC_PORT: '3' }, { port: '4' }).values.port, 4);
  });

  it('names each unknown section and key by line, and what was meant', () => {
    assert.deepEqual(
      problems(
        'server:\n  prot: 1\n  mainBranch: x\n  SYNC_DIRS: x\n  url: x\n  kept: 3\n  zzz: 1\nclinet:\n  a: 1\nport: 3\n',
      ),
      [
        'p.yaml:2: the server has no setting prot: did you mean port?',
        'p.yaml:3: the server has no setting mainBranch: did you mean main-branch?',
        'p.yaml:4: the server has no setting SYNC_DIRS: did you mean dirs?',
        'p.yaml:5: url is no setting of the server: it belongs below client:',
        'p.yaml:6: kept is called retention now',
        'p.yaml:7: the server has no setting zzz',
        'p.yaml:8: there is no section clinet: did you mean client? (sections: server, client)',
        'p.yaml:10: port belongs below server:',
      ],
    );
    assert.deepEqual(problems('client:\n  ulr: x\n'), ['p.yaml:2: the client has no setting ulr: did you mean url?']);
  });

  it('names values of a wrong shape, then those that are not valid, by the same rules as elsewhere', () => {
    assert.deepEqual(
      problems('server:\n  port: [1]\n  dirs: {a: 1}\n  main-branch:\n  state: {}\n  modules: [[a]]\n'),
      [
        'p.yaml:2: port must be one value, not a list',
        'p.yaml:3: dirs must be a list, or one text, not a map',
        'p.yaml:4: main-branch has no value: give one, or remove the line',
        'p.yaml:5: state must be one value, not a map',
        'p.yaml:6: modules must be a list of texts',
      ],
    );
    assert.deepEqual(problems('server:\n  port: 10000\n\n  is-on: maybe\n  compat: x\n  main-branch: ""\n'), [
      'p.yaml:2: port must be between 0 and 9999 (is "10000")',
      'p.yaml:6: main-branch has an empty value: give one, or leave it out',
      'p.yaml:4: is-on must be true or false (is "maybe")',
      'p.yaml:5: compat must be one of auto, true (is "x")',
    ]);
  });

  it('refuses what is not one plain YAML document, without showing what it contains', () => {
    const table: Record<string, RegExp> = {
      'server:\n  port: 1\n  port: 2\n': /^p\.yaml:3: this key is there twice$/,
      'server:\n  token: "S3CRET\n': /^p\.yaml:\d: is not YAML/,
      'server:\n\ttoken: S3CRET\n': /^p\.yaml:2: is not YAML/,
      'server:\n  token: !x S3CRET\n': /^p\.yaml:2: YAML tags/,
      'server:\n  token: *S3CRET\n': /^p\.yaml:2: is an alias of nothing: quote/,
      'server:\n  token: S3CRET\n---\nclient:\n': /^p\.yaml:3: a configuration file is one YAML document/,
      '- a\n': /^p\.yaml:1: the file must be a map/,
      'server: S3CRET\n': /^p\.yaml:1: server: must be a map/,
      'server:\n  ? [S3CRET]\n  : 1\n': /^p\.yaml:2: is not YAML/,
      'server:\n  sources: .inf\n':
        /^p\.yaml:2: sources must be JSON: at line 1, column 1 there must be a JSON value, not \.$/,
      'server:\n  sources: [.nan]\n': /^p\.yaml:2: must be JSON/,
      '%YAML 1.1\n---\nserver:\n  is-on: maybe\n': /^p\.yaml:4: is-on must be true or false/,
    };
    for (const [text, wanted] of Object.entries(table)) {
      const [first = 'nothing', ...others] = problems(text);
      assert.match(first, wanted, text);
      assert.deepEqual(others, [], text);
      assert.doesNotMatch(first, /S3CRET/);
    }
  });

  it('aliases work, and neither many nor those that contain themselves take long', () => {
    assert.deepEqual(load('client:\n  url: &u x\nserver:\n  dirs: [*u, *u]\n  main-branch: *u\n').values.dirs, [
      'x',
      'x',
    ]);
    const bomb = ['a: &a [x,x,x,x,x,x,x,x,x]'];
    for (const [before, name] of ['ab', 'bc', 'cd', 'de', 'ef', 'fg'].map((pair) => [...pair] as [string, string])) {
      bomb.push(`${name}: &${name} [${Array(9).fill(`*${before}`)}]`);
    }
    const text = `server:\n  sources:\n    ${bomb.join('\n    ')}\n`;
    const spentMs = cpuTimer();
    assert.match(problems(text)[0] ?? '', /has more than 100 aliases/);
    assert.match(problems('server:\n  sources: &a\n    b: *a\n')[0] ?? '', /has more than 100 aliases|deeper/);
    assert(spentMs() < 2000);
  });

  it('is read from a bounded file, and warns if others may read the secrets in it', () => {
    const withSecret = 'server:\n  token: hush\n';
    withFile(withSecret, 0o640, (path) => assert.deepEqual(readConfigFile(path, SECTIONS).warnings, []));
    withFile('server:\n  port: 3\n  token-file: /x\n', 0o644, (path) =>
      assert.deepEqual(readConfigFile(path, SECTIONS).warnings, []),
    );
    withFile(withSecret, 0o644, (path) => {
      const [warning = ''] = readConfigFile(path, SECTIONS).warnings;
      assert(warning.includes(`${path} has secrets (server.token)`) && warning.includes('mode 644'), warning);
      assert.doesNotMatch(warning, /hush/);
    });
    // A repository by its URL with a password.
    for (const [url, warns] of [
      ['https://bot:hush@git.example/policies.git', true],
      ['https://git.example/policies.git', false],
      ['ssh://git@git.example/policies.git', false],
    ] as const)
      withFile(`client:\n  url: ${url}\n`, 0o644, (path) => {
        const [warning] = readConfigFile(path, SECTIONS).warnings;
        assert.equal(warning?.includes('has secrets (client.url)') ?? false, warns, url);
        assert.doesNotMatch(warning ?? '', /hush/);
      });
    const refused = (path: string, message: RegExp): void =>
      assert.throws(() => readConfigFile(path, SECTIONS), { code: 'config_invalid', message });
    withFile(`#${'x'.repeat(1024 * 1024)}`, 0o600, (path) => refused(path, /larger than 1048576 bytes/));
    refused('/no/such/policysync.yaml', /\/no\/such\/policysync\.yaml cannot be read: it does not exist$/);
    refused(tmpdir(), /it is a folder$/);
  });
});
