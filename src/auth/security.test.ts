import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { decodeProtectedHeader } from 'jose';
import { readSettings } from '../lib/settings/options.js';
import { clientAuthenticator, serverSecurity } from './security.js';
import { ISSUE_SETTINGS, VERIFY_SETTINGS } from './settings.js';

const P521 = generateKeyPairSync('ec', {
  namedCurve: 'P-521',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

function settings(env: Record<string, string>) {
  return readSettings({ ...VERIFY_SETTINGS, ...ISSUE_SETTINGS }, { env }).values;
}

test("OPAL's name ES521 means ES512, on the server and on the client", async () => {
  const env = {
    OPAL_AUTH_JWT_ALGORITHM: 'ES521',
    OPAL_AUTH_PUBLIC_KEY: P521.publicKey,
    OPAL_AUTH_PRIVATE_KEY: P521.privateKey.trim().replaceAll('\n', '_'),
    OPAL_AUTH_PUBLIC_KEY_FORMAT: 'pem',
  };
  const { issuer, publishedKeys } = await serverSecurity(settings(env));
  const asked = { id: '5a8e53a5421042178180d29a6851552b', type: 'client', ttlSeconds: 60, claims: {} } as const;
  const { token } = (await issuer?.issue(asked)) ?? { token: '' };
  assert.equal(decodeProtectedHeader(token).alg, 'ES512');
  assert.equal(publishedKeys[0]?.alg, 'ES512');
  assert.equal((await (await clientAuthenticator(settings(env))).authenticate(`Bearer ${token}`)).peerType, 'client');
});

test('without keys authentication is off, and nothing that a caller says of itself is believed', async () => {
  const { authenticator, issuer, publishedKeys } = await serverSecurity(settings({ SYNC_AUTH_MASTER_TOKEN: 'm' }));
  assert.deepEqual([authenticator.enabled, issuer, publishedKeys], [false, undefined, []]);
  const caller = await authenticator.authenticate('Bearer x.y.z');
  assert.deepEqual([caller.subject, caller.peerType, caller.claims], [null, undefined, {}]);
  assert.equal((await clientAuthenticator(settings({}))).enabled, false);
});
