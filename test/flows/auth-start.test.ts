import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { keyPair } from '../support/auth.js';
import { runCommand, startCommand } from '../support/command.js';
import { request } from '../support/http.js';
import { tempDir } from '../support/temp-dir.js';

/** Programs never run open, or half configured, because of a key that cannot be used (opal-protocol P10.8). */

const PAIR = keyPair();
const OTHER = keyPair();
const EC = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

const SERVER: [string, Record<string, string>, RegExp][] = [
  ['only the public key', { SYNC_AUTH_PUBLIC_KEY: PAIR.publicKey }, /PUBLIC_KEY is set without SYNC_AUTH_PRIVATE_KEY/],
  [
    'only the private key',
    { SYNC_AUTH_PRIVATE_KEY: PAIR.privateKey },
    /PRIVATE_KEY is set without SYNC_AUTH_PUBLIC_KEY/,
  ],
  [
    'keys of two pairs',
    { SYNC_AUTH_PUBLIC_KEY: OTHER.publicKey, SYNC_AUTH_PRIVATE_KEY: PAIR.privateKey },
    /are not of one pair/,
  ],
  [
    'a key of another algorithm',
    { SYNC_AUTH_PUBLIC_KEY: EC.publicKey, SYNC_AUTH_PRIVATE_KEY: EC.privateKey },
    /does not fit SYNC_AUTH_JWT_ALGORITHM: it is of type ec, RS256 needs rsa/,
  ],
  [
    'a file that does not exist',
    { SYNC_AUTH_PUBLIC_KEY: '/no/such/key', SYNC_AUTH_PRIVATE_KEY: PAIR.privateKey },
    /SYNC_AUTH_PUBLIC_KEY is neither the text of a key nor the path of a file that exists/,
  ],
  ['the algorithm none', { SYNC_AUTH_JWT_ALGORITHM: 'none' }, /SYNC_AUTH_JWT_ALGORITHM must be one of RS256/],
  ['a symmetric algorithm', { SYNC_AUTH_JWT_ALGORITHM: 'HS256' }, /SYNC_AUTH_JWT_ALGORITHM must be one of RS256/],
];
for (const [name, env, message] of SERVER) {
  test(`the server does not start with ${name}`, async () => {
    await using folder = await tempDir();
    const result = await runCommand('server', ['run'], {
      ...env,
      SYNC_SERVER_BIND_PORT: '0',
      SYNC_STATE_DIR: folder.path,
    });
    assert.equal(result.code, 2, result.stderr);
    assert.match(result.stderr, message);
    assert.doesNotMatch(result.stderr, /MII/);
    assert.deepEqual(await readdir(folder.path), [], 'nothing was begun');
  });
}

const CLIENT: [string, Record<string, string>, RegExp][] = [
  ['a key that is none', { SYNC_AUTH_PUBLIC_KEY: 'ssh-rsa AAAA' }, /SYNC_AUTH_PUBLIC_KEY/],
  ['a private key', { SYNC_AUTH_PUBLIC_KEY: PAIR.privateKey }, /is a private key/],
  ['a key of another algorithm', { SYNC_AUTH_PUBLIC_KEY: EC.publicKey }, /does not fit SYNC_AUTH_JWT_ALGORITHM/],
];
for (const [name, env, message] of CLIENT) {
  test(`the client does not start with ${name}`, async () => {
    const result = await runCommand('client', ['run'], { ...env, SYNC_CLIENT_API_SERVER_PORT: '0' });
    assert.equal(result.code, 2, result.stderr);
    assert.match(result.stderr, message);
    assert.doesNotMatch(result.stderr, /MII/);
  });
}

test('keys may be files and OPAL names, and secrets do not show in the configuration', async () => {
  await using folder = await tempDir();
  const [publicFile, privateFile] = [join(folder.path, 'key.pub'), join(folder.path, 'key')];
  await writeFile(publicFile, PAIR.publicKey);
  await writeFile(privateFile, PAIR.privateKey);
  const env = {
    OPAL_AUTH_PUBLIC_KEY: publicFile,
    OPAL_AUTH_PRIVATE_KEY: privateFile,
    OPAL_AUTH_MASTER_TOKEN: 'hush',
    SYNC_SERVER_BIND_PORT: '0',
    SYNC_STATE_DIR: join(folder.path, 'state'),
  };
  const shown = await runCommand('server', ['print-config'], env);
  assert.match(shown.stdout, /SYNC_AUTH_MASTER_TOKEN=\*\*\*/);
  assert.doesNotMatch(shown.stdout, /hush/);
  await using server = startCommand('server', ['run'], env);
  const [, url = ''] = await server.says(/"url":"([^"]+)"/);
  assert.equal((await request(`${url}/policy`)).status, 401);
  assert.doesNotMatch(server.stderr(), /hush/);
});
