import assert from 'node:assert/strict';
import { createPrivateKey, createPublicKey } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { MASTER_TOKEN, tokenOf } from '../support/auth.js';
import { type CommandResult, runCommand } from '../support/command.js';
import { runHere } from '../support/run-here.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

function keys(...args: string[]): Promise<CommandResult> {
  return runHere('policysync', ['keys', '--bits', '2048', ...args]);
}

describe('policysync keys', () => {
  it('makes a pair that a server issues tokens with; the private one is for its owner alone', async () => {
    await using dir = await tempDir();
    const file = join(dir.path, 'sync-key');
    const { code, stdout, stderr } = await keys('--out', file);
    assert.equal(code, 0, stderr);
    assert.equal(
      stdout,
      `private key  ${file}      for the server alone: SYNC_AUTH_PRIVATE_KEY
public key   ${file}.pub  for server and clients: SYNC_AUTH_PUBLIC_KEY
`,
    );
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    await using server = await startServer({
      SYNC_AUTH_PRIVATE_KEY: file,
      SYNC_AUTH_PUBLIC_KEY: `${file}.pub`,
      SYNC_AUTH_MASTER_TOKEN: MASTER_TOKEN,
    });
    assert.match(await tokenOf(server.url), /^eyJ/);
  });

  it('replaces nothing without --force, and makes nothing where one of the two is there', async () => {
    await using dir = await tempDir();
    const file = join(dir.path, 'key');
    await writeFile(`${file}.pub`, 'mine', { mode: 0o644 });
    const refused = await keys('--out', file);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /key\.pub is there already; --force replaces it, --out names another/);
    assert.deepEqual(await readdir(dir.path), ['key.pub']);

    await writeFile(file, 'old');
    await chmod(file, 0o644);
    const forced = await keys('--out', file, '--force', '--json');
    assert.deepEqual(JSON.parse(forced.stdout), {
      private_key_file: file,
      public_key_file: `${file}.pub`,
      algorithm: 'RS256',
      bits: 2048,
    });
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    const [priv, pub] = await Promise.all([readFile(file, 'utf8'), readFile(`${file}.pub`, 'utf8')]);
    const ofPrivate = createPublicKey(createPrivateKey(priv)).export({ type: 'spki', format: 'pem' });
    assert.equal(ofPrivate, createPublicKey(pub).export({ type: 'spki', format: 'pem' }));
  });

  it('follows no link, and says which file it cannot write', async () => {
    await using dir = await tempDir();
    const other = join(dir.path, 'other');
    await writeFile(other, 'mine');
    await symlink(other, join(dir.path, 'key'));
    assert.equal((await keys('--out', join(dir.path, 'key'))).code, 2);
    assert.equal((await keys('--out', join(dir.path, 'key'), '--force')).code, 0);
    assert.equal(await readFile(other, 'utf8'), 'mine');

    const { code, stderr } = await keys('--out', join(dir.path, 'no', 'key'));
    assert.equal(code, 2);
    assert.match(stderr, /no\/key cannot be written: its folder does not exist/);
    await mkdir(join(dir.path, 'folder'));
    assert.match(
      (await keys('--out', join(dir.path, 'folder'), '--force')).stderr,
      /folder is a folder: --out takes the path of a file/,
    );
  });

  it('makes a secret instead: printed, or in a private file', async () => {
    await using dir = await tempDir();
    const secret = await keys('--secret');
    assert.match(secret.stdout, /^[\w-]{43}\n$/);
    assert.notEqual((await keys('--secret')).stdout, secret.stdout);
    const json = JSON.parse((await keys('--secret', '16', '--json')).stdout) as object;
    assert.match(String('secret' in json && json.secret), /^[\w-]{22}$/);
    const file = join(dir.path, 'master');
    assert.equal((await keys('--secret', '--out', file)).stdout, `secret  ${file}\n`);
    assert.match(await readFile(file, 'utf8'), /^[\w-]{43}\n$/);
    assert.equal((await stat(file)).mode & 0o777, 0o600);
    assert.match(
      (await keys('--secret', '3')).stderr,
      /--secret must be a whole number of bytes from 16 to 1024 \(is 3\)/,
    );
    assert.equal((await keys('--secret', '--out', file)).code, 2);
  });

  it('writes below the home folder where a shell leaves ~ as it is', async () => {
    await using home = await tempDir();
    for (const args of [
      ['--bits', '2048', '--out=~/key'],
      ['--secret', '--out=~/secret'],
    ]) {
      const { code, stdout, stderr } = await runCommand('policysync', ['keys', ...args], { HOME: home.path });
      assert.equal(code, 0, stderr);
      assert.ok(stdout.includes(`${home.path}/`), stdout);
    }
    assert.deepEqual((await readdir(home.path)).sort(), ['key', 'key.pub', 'secret']);
  });
});
