import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it, test } from 'node:test';
import { SyncError } from '../../../lib/errors.js';
import { Secret } from '../../../lib/observe/log.js';
import { readSshKey, sshCommand, sshCommandFor } from './ssh-key.js';

const DIR = mkdtempSync(join(tmpdir(), 'ssh-key-'));
after(() => rmSync(DIR, { recursive: true, force: true }));

function run(program: string, ...args: string[]): string {
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

function file(name: string, text: string): string {
  const path = join(DIR, name);
  writeFileSync(path, text, { mode: 0o600 });
  return path;
}

const KEY = join(DIR, 'id');
run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'c', '-f', KEY);
const TEXT = readFileSync(KEY, 'utf8');
const [TYPE = '', PUBLIC = ''] = readFileSync(`${KEY}.pub`, 'utf8').split(' ');
const LINES = TEXT.trim().split('\n');
const BODY = LINES.slice(1, -1);
const joined = (separator: string): string => TEXT.trim().split('\n').join(separator);

/** How the text of a key arrives. */
const REPAIRED: Record<string, string> = {
  'as it was made': TEXT,
  'without its last newline': TEXT.trim(),
  'with Windows line breaks': joined('\r\n'),
  'with \\n as two characters': joined('\\n'),
  'with \\r\\n as four characters': joined('\\r\\n'),
  'in quotes, with \\n': `"${joined('\\n')}\\n"`,
  'with underscores': joined('_'),
  'with blanks': joined(' '),
  'with nothing': joined(''),
  indented: joined('\n    '),
  'with a byte order mark': `\ufeff${TEXT}`,
  'as base64': Buffer.from(TEXT).toString('base64'),
  'as base64 in lines': Buffer.from(TEXT).toString('base64').replaceAll(/.{76}/g, '$&\n'),
  'without its first and last line': BODY.join('\n'),
  'without them, in one line': BODY.join(''),
};

/** What is no private key, and what is said of it. */
const REFUSED: Record<string, readonly [string, RegExp]> = {
  'a key of PuTTY': [
    'PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nhush-hush-hush',
    /PuTTY: convert it by `puttygen/,
  ],
  'a key of SSH2': ['---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nhush-hush-hush', /form of SSH2: convert/],
  'a public key': [`${TYPE} ${PUBLIC} c`, /is a public key: give the private one/],
  'a public key as PEM': [
    `-----BEGIN PUBLIC KEY-----\n${PUBLIC}\n-----END PUBLIC KEY-----`,
    /is a public key: give a private key/,
  ],
  'a key without its last line': [LINES.slice(0, -1).join('\n'), /is cut off: it has no last line/],
  'a key with something else inside': [TEXT.replace(BODY[0] ?? '', 'h~sh-h~sh'), /other than base64 inside/],
  'a key with nothing inside': [`${LINES[0]}\n${LINES.at(-1)}`, /nothing between/],
  'the content of a DER key': [
    `MIIEvQIBADANBgkqhkiG9w0BAQEFAASC${'A'.repeat(900)}`,
    /neither the text of a private key nor/,
  ],
  'the end of a key': [BODY.slice(1).join('\n'), /neither the text of a private key nor/],
  'more than any key': ['hush'.repeat(20_000), /neither the text of a private key nor/],
  'a text with a zero byte': ['hush\0hush', /neither the text of a private key nor/],
  'a path that does not exist': [join(DIR, 'hush', 'id'), /neither the text of a private key nor/],
  'a folder': [DIR, /not a file/],
};

describe('an ssh key', () => {
  it('is read in each form in which its text arrives', async () => {
    for (const [form, value] of Object.entries(REPAIRED)) {
      const key = await readSshKey(new Secret(value));
      assert.deepEqual([key.file, key.folder], [undefined, undefined], form);
      assert.equal(run('ssh-keygen', '-y', '-f', file('given', key.text)).split(' ')[1]?.trim(), PUBLIC, form);
    }
  });

  it('is refused in every other one, and nothing of it is shown', async () => {
    for (const [form, [value, message]] of Object.entries(REFUSED)) {
      const error = await readSshKey(new Secret(value)).catch((reason: unknown) => reason);
      assert(error instanceof SyncError && error.code === 'config_invalid', form);
      assert.match(error.message, message, form);
      assert.equal(error.cause, undefined, form);
      for (const part of value.match(/\S{12}/g) ?? []) {
        const isOurWord = /^-----(?:BEGIN|END)/.test(part);
        assert(isOurWord || !error.message.includes(part), `${form}: ${error.message}`);
      }
    }
  });

  it('in a file is used where it is, or as a copy if ssh could not read it', async () => {
    const copy = join(DIR, 'copy');
    assert.equal((await readSshKey(new Secret(KEY))).file, KEY);
    assert(!(await sshCommandFor(new Secret(KEY), copy)).includes(copy));
    const windows = file('windows', joined('\r\n'));
    assert((await sshCommandFor(new Secret(windows), copy)).startsWith(`ssh -i '${copy}'`));
    assert.equal(readFileSync(copy, 'utf8'), TEXT);
    writeFileSync(join(DIR, 'known_hosts'), '');
    assert.match(await sshCommandFor(new Secret(windows), copy), /StrictHostKeyChecking=yes/, 'hosts beside the file');
    for (const [form, [value, message]] of Object.entries(REFUSED).slice(0, 7)) {
      await assert.rejects(readSshKey(new Secret(file('refused', value))), { code: 'config_invalid', message }, form);
    }
    const other = /names a file that has no private key/;
    await assert.rejects(readSshKey(new Secret(file('refused', 'hush'))), { code: 'config_invalid', message: other });
  });

  it('at ~/ is in the home folder', async () => {
    const home = join(DIR, 'home');
    mkdirSync(home);
    const { HOME } = process.env;
    process.env.HOME = home;
    try {
      writeFileSync(join(home, 'key'), TEXT);
      assert.equal((await readSshKey(new Secret('~/key'))).file, join(home, 'key'));
    } finally {
      process.env.HOME = HOME;
    }
  });
});

test('ssh uses one key, asks nobody, and accepts a new host only where none is pinned', () => {
  assert.equal(
    sshCommand("/srv/it's"),
    "ssh -i '/srv/it'\\''s' -o IdentitiesOnly=yes -o StrictHostKeyChecking=accept-new -o BatchMode=yes",
  );
  assert.equal(
    sshCommand('/run/keys/id', '/run/keys/known_hosts'),
    "ssh -i '/run/keys/id' -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes " +
      `-o 'UserKnownHostsFile="/run/keys/known_hosts" ~/.ssh/known_hosts ~/.ssh/known_hosts2' -o BatchMode=yes`,
  );
});
