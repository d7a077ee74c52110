import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { keyPair } from '../support/auth.js';
import { runCommand, startCommand } from '../support/command.js';
import { request } from '../support/http.js';
import { SyncError } from '../support/library.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

/** Programs never run open, or half configured, because of a key that cannot be used (opal-protocol P10.8). */

const PAIR = keyPair();
const OTHER = keyPair();
const EC = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

type Case = readonly [name: string, env: Record<string, string>, message: RegExp];

const SERVER: readonly [Case, ...Case[]] = [
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
    const error = await startServer(env, { stateDir: folder.path }).then(() => undefined, errorOf);
    refuses(error, message);
    assert.deepEqual(await readdir(folder.path), [], 'nothing was begun');
  });
}

const CLIENT: readonly [Case, Case, ...Case[]] = [
  ['a key that is none', { SYNC_AUTH_PUBLIC_KEY: 'ssh-rsa AAAA' }, /SYNC_AUTH_PUBLIC_KEY/],
  ['a private key', { SYNC_AUTH_PUBLIC_KEY: PAIR.privateKey }, /is a private key/],
  ['a key of another algorithm', { SYNC_AUTH_PUBLIC_KEY: EC.publicKey }, /does not fit SYNC_AUTH_JWT_ALGORITHM/],
];
for (const [name, env, message] of CLIENT) {
  test(`the client does not start with ${name}`, async () => {
    const serverUrl = 'http://127.0.0.1:9';
    const error = await startClient({ serverUrl, engineUrl: serverUrl, env }).then(() => undefined, errorOf);
    refuses(error, message);
  });
}

function errorOf(error: unknown): unknown {
  return error;
}

/** A `config_invalid` that says this, and shows nothing of a key. */
function refuses(error: unknown, message: RegExp): void {
  assert(error instanceof SyncError, String(error));
  assert.equal(error.code, 'config_invalid');
  assert.match(error.message, message);
  assert.doesNotMatch(inspect(error), /MII/);
}

for (const [program, name, env, message] of [
  ['server', ...SERVER[0]],
  ['client', ...CLIENT[1]],
] as const) {
  test(`the program of the ${program} ends with code 2 with ${name}`, async () => {
    await using folder = await tempDir();
    const port = program === 'server' ? { SYNC_SERVER_BIND_PORT: '0' } : { SYNC_CLIENT_API_SERVER_PORT: '0' };
    const result = await runCommand(program, ['run'], { ...env, ...port, XDG_STATE_HOME: folder.path });
    assert.equal(result.code, 2, result.stderr);
    assert.match(result.stderr, message);
    assert.doesNotMatch(result.stderr, /MII/);
    assert.deepEqual(await readdir(folder.path), [], 'nothing was begun');
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
  const shown = await runCommand('policysync', ['config', 'print', 'server'], env);
  assert.match(shown.stdout, /SYNC_AUTH_MASTER_TOKEN=\*\*\*/);
  assert.doesNotMatch(shown.stdout, /hush/);
  await using server = startCommand('server', ['run'], env);
  const [, url = ''] = await server.says(/"url":"([^"]+)"/);
  assert.equal((await request(`${url}/policy`)).status, 401);
  assert.doesNotMatch(server.stderr(), /hush/);
});
