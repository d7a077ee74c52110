import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, describe, it } from 'node:test';
import { parseConfigFile } from './config-file.js';
import { readSettings, settingValues } from './options.js';
import { listSetting, orPath, pathSetting, secretSetting, textSetting, tokenSetting } from './setting-kinds.js';

const folder = mkdtempSync(join(tmpdir(), 'given-'));
after(() => rmSync(folder, { recursive: true }));

/** A file with a secret. */
function secretFile(content: string | Buffer, mode = 0o600): string {
  const path = join(folder, `secret-${String(Math.random()).slice(2)}`);
  writeFileSync(path, content);
  chmodSync(path, mode);
  return path;
}

const SETTINGS = {
  token: secretSetting('SYNC_TOKEN', 'A secret.'),
  text: textSetting('SYNC_TEXT', 'A text.'),
  path: pathSetting('SYNC_PATH', 'A path.', { form: 'file' }),
  paths: listSetting('SYNC_PATHS', 'Paths.', { ofPaths: true }),
};

describe('a secret whose file is read again', () => {
  const settings = { token: { ...tokenSetting('SYNC_TOKEN', 'A token.'), isReread: true } };

  it('has what the file has at each use; what cannot be used counts as no change', () => {
    const path = secretFile('first\n');
    const { token } = readSettings(settings, { env: { SYNC_TOKEN_FILE: path } }).values;
    assert.equal(token?.reveal(), 'first');
    writeFileSync(path, 'second\n');
    assert.equal(token?.reveal(), 'second');
    for (const bad of ['', 'two words', 'x'.repeat(100_000)]) {
      writeFileSync(path, bad);
      assert.equal(token?.reveal(), 'second', JSON.stringify(bad.slice(0, 10)));
    }
    rmSync(path);
    assert.equal(token?.reveal(), 'second');
    writeFileSync(path, 'third');
    assert.equal(token?.reveal(), 'third');
  });

  it('is warned of once, however often it is read', () => {
    const { values, warnings } = readSettings(settings, { env: { SYNC_TOKEN_FILE: secretFile('"quoted"') } });
    for (let use = 0; use < 3; use++) assert.equal(values.token?.reveal(), '"quoted"');
    assert.equal(warnings.length, 1, warnings.join('\n'));
  });

  it('stays what it is where a program hands the settings on', () => {
    const path = secretFile('first');
    const { values } = readSettings(settings, { env: { SYNC_TOKEN_FILE: path } });
    const { token } = settingValues(settings, values);
    writeFileSync(path, 'second');
    assert.equal(token?.reveal(), 'second');
    assert.equal(settingValues(settings, { token: 'plain' }).token?.reveal(), 'plain');
  });
});

/** Loads from the environment, from flags, and from the lines of the section of a file. */
function load(env: Record<string, string>, flags: Record<string, string> = {}, lines: readonly string[] = []) {
  const text = ['x:', ...lines.map((line) => `  ${line}`)].join('\n');
  return readSettings(SETTINGS, { env, flags, file: parseConfigFile(text, 'p.yaml', { x: SETTINGS }).get('x') });
}

function problem(...sources: Parameters<typeof load>): string {
  try {
    load(...sources);
  } catch (error) {
    return (error as Error).message.split('\n  ').slice(1).join('\n');
  }
  return 'nothing was refused';
}

describe('a relative path', () => {
  const at = (name: string): string => join(folder, name);
  const key = orPath(secretSetting('SYNC_KEY', 'A key.'));
  const all = { ...SETTINGS, key };
  const loadAt = (lines: readonly string[], env: Record<string, string> = {}) => {
    const text = ['x:', ...lines.map((line) => `  ${line}`)].join('\n');
    return readSettings(all, { env, file: parseConfigFile(text, at('p.yaml'), { x: all }).get('x') });
  };

  it('begins in the folder of the configuration file if it is there, else where the program runs', () => {
    writeFileSync(at('hush'), 'S3CRET', { mode: 0o600 });
    const { values } = loadAt(['path: state', 'paths: [a, /b, ~/c, file:///d]', 'token-file: hush', 'key: ./hush']);
    assert.deepEqual(
      [values.path, values.paths, values.token?.reveal(), values.key?.reveal()],
      [at('state'), [at('a'), '/b', join(homedir(), 'c'), 'file:///d'], 'S3CRET', at('hush')],
    );
    assert.equal(loadAt(['path: state'], { SYNC_PATH: 'state' }).values.path, 'state');
    mkdirSync(at('folder'));
    const message = new RegExp(`the file ${at('folder')} cannot be read: it is a folder`);
    assert.throws(() => loadAt(['token-file: folder']), { message });
  });

  it('is no address, and no text of a key', () => {
    for (const address of ['https://h/p', 'git@h:p', 'file:///x', 'h:p/q']) {
      assert.equal(loadAt([`path: '${address}'`]).values.path, address);
    }
    assert.equal(loadAt(["key: '-----BEGIN_PRIVATE KEY-----'"]).values.key?.reveal(), '-----BEGIN_PRIVATE KEY-----');
    assert.equal(loadAt(['key: "a\\nhush"']).values.key?.reveal(), 'a\nhush');
  });

  it('that leads nowhere, while there is something where the program runs, is a warning', () => {
    const [warning = ''] = loadAt(['path: package.json']).warnings;
    assert.match(
      warning,
      /p\.yaml:2: path is .*package\.json, which does not exist: relative paths begin in the folder/,
    );
    assert.deepEqual(loadAt(['path: hush']).warnings, []);
  });
});

describe('a secret in a file', () => {
  it('is read without one newline at its end, from each place', () => {
    const path = secretFile('S3CRET \n\n');
    for (const sources of [
      [{ SYNC_TOKEN_FILE: path }],
      [{ OPAL_TOKEN_FILE: path }],
      [{}, { 'token-file': path }],
      [{}, {}, [`token-file: ${path}`]],
    ] as Parameters<typeof load>[]) {
      const { values, secretFiles, warnings, unknown } = load(...sources);
      assert.equal(values.token?.reveal(), 'S3CRET \n');
      assert.deepEqual([secretFiles, warnings, unknown], [{ token: path }, [], []]);
    }
    assert.equal(load({ SYNC_TOKEN_FILE: secretFile('a\r\n') }).values.token?.reveal(), 'a');
    assert.equal(load({ SYNC_TOKEN_FILE: secretFile('a') }).values.token?.reveal(), 'a');
  });

  it('follows the order of places, and both forms in one place are an error', () => {
    const path = secretFile('FILE');
    assert.equal(load({ SYNC_TOKEN: 'ENV' }, { 'token-file': path }).values.token?.reveal(), 'FILE');
    assert.equal(load({ SYNC_TOKEN_FILE: path }, { token: 'FLAG' }).values.token?.reveal(), 'FLAG');
    assert.equal(load({ OPAL_TOKEN: 'ENV' }, {}, [`token-file: ${path}`]).values.token?.reveal(), 'ENV');
    assert.equal(load({ SYNC_TOKEN: '', SYNC_TOKEN_FILE: path }).values.token?.reveal(), 'FILE');
    const both = 'are both given: leave one of them out';
    assert.equal(problem({ SYNC_TOKEN: 'x', OPAL_TOKEN_FILE: path }), `SYNC_TOKEN and OPAL_TOKEN_FILE ${both}`);
    assert.equal(problem({}, { token: 'x', 'token-file': path }), `--token and --token-file ${both}`);
    const lines = ['token: x', `token-file: ${path}`];
    assert.equal(problem({}, {}, lines), `p.yaml:2: token and p.yaml:3: token-file ${both}`);
  });

  it('that cannot be used is an error that names setting and file, and shows nothing of it', () => {
    const missing = 'SYNC_TOKEN_FILE: the file does not exist (its path is not shown: it may be the secret itself)';
    assert.equal(problem({ SYNC_TOKEN_FILE: '/no/such/S3CRET' }), missing);
    const cases: [string | Buffer, RegExp][] = [
      ['', /is empty: it must contain the secret$/],
      ['\n', /is empty/],
      ['S3CRET'.repeat(11_000), /is larger than 65536 bytes$/],
      [Buffer.from([0xff, 0x53]), /is not UTF-8 text$/],
    ];
    for (const [content, message] of cases) {
      const path = secretFile(content);
      const text = problem({ SYNC_TOKEN_FILE: path });
      assert(text.startsWith(`SYNC_TOKEN_FILE: the file ${path} `), text);
      assert.match(text, message);
      assert.doesNotMatch(text, /S3CRET/);
    }
    assert.match(
      problem({}, {}, ['token-file: /']),
      /^p\.yaml:2: token-file: the file \/ cannot be read: it is a folder$/,
    );
  });

  it('that every user may read is a warning', () => {
    const path = secretFile('x', 0o644);
    const [warning = '', ...others] = load({ SYNC_TOKEN_FILE: path }).warnings;
    assert(
      warning.startsWith(`SYNC_TOKEN_FILE: every user of this machine may read the file ${path} (mode 644)`),
      warning,
    );
    assert.deepEqual(others, []);
    assert.deepEqual(load({ SYNC_TOKEN_FILE: secretFile('x', 0o640) }).warnings, []);
  });

  it('only a secret has one', () => {
    assert.deepEqual(load({ SYNC_TEXT_FILE: '/x' }).unknown, ['SYNC_TEXT_FILE']);
  });
});

describe('a given value', () => {
  it('of a path has the home folder for ~, wherever it comes from; other values keep it', () => {
    const home = homedir();
    for (const sources of [
      [{ SYNC_PATH: '~/a', SYNC_PATHS: '~/a, ~,~b,c~/d', SYNC_TEXT: '~/a' }],
      [{}, { path: '~/a', paths: '~/a,~,~b,c~/d', text: '~/a' }],
      [{}, {}, ['path: ~/a', 'paths: [~/a, "~", ~b, c~/d]', 'text: ~/a']],
    ] as Parameters<typeof load>[]) {
      const { values } = load(...sources);
      assert.deepEqual(values.path, join(home, 'a'));
      const here = (path: string): string => (sources[2] === undefined ? path : resolve(path));
      assert.deepEqual(values.paths, [join(home, 'a'), home, here('~b'), here('c~/d')]);
      assert.deepEqual(values.text, '~/a');
    }
    assert.equal(load({ SYNC_PATH: '~b/c' }).values.path, '~b/c');
    assert.match(problem({ SYNC_TOKEN_FILE: '~' }), new RegExp(`the file ${home} cannot be read: it is a folder`));
  });

  it('that is empty is an error that names the flag; an empty variable is not set', () => {
    assert.equal(problem({}, { text: '' }), '--text has an empty value: give one, or leave it out');
    assert.equal(problem({}, { 'token-file': '' }), '--token-file has an empty value: give one, or leave it out');
    assert.equal(problem({}, {}, ['text: ""']), 'p.yaml:2: text has an empty value: give one, or leave it out');
    assert.equal(load({ SYNC_TEXT: '', SYNC_TOKEN_FILE: '' }).values.text, undefined);
  });

  it("is named by the command's own flag", () => {
    const sources = { env: {}, flags: { text: '' }, flagNames: { text: '--other' } };
    assert.throws(() => readSettings(SETTINGS, sources), { message: /--other has an empty value/ });
  });
});
