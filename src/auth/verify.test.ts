import assert from 'node:assert/strict';
import { createHmac, createSign, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import type { JwtAlgorithm } from './algorithms.js';
import type { Authenticator } from './caller.js';
import { createIssuer } from './issue.js';
import { publishedKey } from './jwks.js';
import { createVerifier } from './verify.js';

const OPTIONS = { audience: 'aud', issuer: 'iss', allowNoExpiry: false };
const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const foreign = generateKeyPairSync('rsa', { modulusLength: 2048 });
const SUB = '5a8e53a5421042178180d29a6851552b';

function verifier(now: () => number = Date.now, allowNoExpiry = false): Promise<Authenticator> {
  return createVerifier({ ...OPTIONS, allowNoExpiry, algorithm: 'RS256' }, { publicKey, now });
}

function part(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** A token made by hand, as an attacker would. */
function token(claims: object, { header = {}, key = privateKey }: { header?: object; key?: KeyObject } = {}): string {
  const exp = Math.floor(Date.now() / 1000) + 60;
  const input = `${part({ alg: 'RS256', typ: 'JWT', ...header })}.${part({ exp, aud: 'aud', iss: 'iss', sub: SUB, ...claims })}`;
  return `${input}.${createSign('sha256').update(input).sign(key).toString('base64url')}`;
}

async function refusal(authorization: string | undefined, by?: Authenticator): Promise<string | undefined> {
  try {
    await (by ?? (await verifier())).authenticate(authorization);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof SyncError && error.code === 'unauthorized', String(error));
    const sent = authorization?.split(' ').at(-1) ?? '';
    if (sent !== '')
      assert.ok(!JSON.stringify([error.message, error.detail]).includes(sent), 'the token is not echoed');
    return error.message;
  }
}

test('a good token tells who calls', async () => {
  const caller = await (await verifier()).authenticate(
    `bearer ${token({ peer_type: 'listener', permitted_topics: ['a'], tenant: 't' })}`,
  );
  assert.equal(caller.subject, SUB);
  assert.equal(caller.peerType, 'listener');
  assert.deepEqual(caller.permittedTopics, new Set(['a']));
  assert.equal(caller.claims.tenant, 't');
  assert.equal(JSON.stringify(caller.token), '"***"');
});

test('what is no good token is refused with the text of its reason and without an echo', async () => {
  const unsigned = `${part({ alg: 'none', typ: 'JWT' })}.${part({ exp: 9e9, aud: 'aud', iss: 'iss', sub: SUB })}`;
  const confusedInput = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ exp: 9e9, aud: 'aud', iss: 'iss', sub: SUB })}`;
  const pem = publicKey.export({ type: 'spki', format: 'pem' });
  const confused = `${confusedInput}.${createHmac('sha256', pem).update(confusedInput).digest('base64url')}`;
  const good = token({});
  const [head = '', payload = '', signature = ''] = good.split('.');
  const rows: [string | undefined, string][] = [
    [undefined, 'access token was not provided'],
    ['', 'access token was not provided'],
    ['Bearer ', 'access token was not provided'],
    [`Basic ${good}`, 'access token was not provided'],
    ['Bearer nonsense', 'Could not decode access token'],
    ['Bearer a.b.c', 'Could not decode access token'],
    [`Bearer ${head}.${payload}.`, 'Could not decode access token'],
    [`Bearer ${head}.${part({ exp: 9e9 })}.${signature}`, 'Could not decode access token'],
    [`Bearer ${token({}, { key: foreign.privateKey })}`, 'Could not decode access token'],
    [`Bearer ${unsigned}.`, 'Unknown JWT error'],
    [`Bearer ${confused}`, 'Unknown JWT error'],
    [`Bearer ${token({}, { header: { alg: 'RS384' } })}`, 'Unknown JWT error'],
    [`Bearer ${token({}, { header: { crit: ['x'], x: 1 } })}`, 'Unknown JWT error'],
    [`Bearer ${token({ exp: 1 })}`, 'Access token is expired'],
    [`Bearer ${token({ exp: undefined })}`, 'Invalid access token: missing exp claim'],
    [`Bearer ${token({ aud: 'x' })}`, 'Invalid access token: invalid audience claim'],
    [`Bearer ${token({ iss: 'x' })}`, 'Invalid access token: invalid issuer claim'],
    [`Bearer ${token({ sub: 'ann' })}`, 'invalid sub claim'],
    [`Bearer ${token({ permitted_topics: 'a' })}`, 'invalid permitted_topics claim'],
  ];
  for (const [authorization, text] of rows) assert.equal(await refusal(authorization), text, authorization);
});

test('a token that was good before is refused once it has expired', async () => {
  let nowMs = 1_000_000;
  const by = await verifier(() => nowMs);
  const authorization = `Bearer ${token({ exp: 1_001 })}`;
  assert.equal(await refusal(authorization, by), undefined);
  nowMs = 1_001_000;
  assert.equal(await refusal(authorization, by), 'Access token is expired');
});

test('tokens without exp are taken where the setting allows them', async () => {
  assert.equal(await refusal(`Bearer ${token({ exp: undefined })}`, await verifier(Date.now, true)), undefined);
});

const KEYS: Record<JwtAlgorithm, () => { publicKey: KeyObject; privateKey: KeyObject }> = {
  RS256: () => ({ publicKey, privateKey }),
  RS384: () => ({ publicKey, privateKey }),
  RS512: () => ({ publicKey, privateKey }),
  PS256: () => ({ publicKey, privateKey }),
  PS384: () => ({ publicKey, privateKey }),
  PS512: () => ({ publicKey, privateKey }),
  ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
  ES384: () => generateKeyPairSync('ec', { namedCurve: 'P-384' }),
  ES512: () => generateKeyPairSync('ec', { namedCurve: 'P-521' }),
  EdDSA: () => generateKeyPairSync('ed25519'),
};
for (const [name, make] of Object.entries(KEYS)) {
  test(`${name}: what we issue we verify, and the published key verifies it too`, async () => {
    const algorithm = name as JwtAlgorithm;
    const pair = make();
    const published = await publishedKey(pair.publicKey, algorithm);
    const issuer = await createIssuer({ ...OPTIONS, algorithm, keyId: published.kid }, pair);
    const claims = { tenant: 't', exp: 1, sub: 'x', peer_type: 'datasource' };
    const { token: issued, expiresAtMs } = await issuer.issue({ id: SUB, type: 'client', ttlSeconds: 60, claims });
    const by = await createVerifier({ ...OPTIONS, algorithm }, pair);
    const caller = await by.authenticate(`Bearer ${issued}`);
    assert.deepEqual(
      [caller.subject, caller.peerType, caller.claims.tenant],
      [SUB, 'client', 't'],
      'no claim overrides ours',
    );
    assert.equal(caller.claims.exp, Math.floor(expiresAtMs / 1000));

    const { calculateJwkThumbprint, createLocalJWKSet, decodeProtectedHeader, jwtVerify } = await import('jose');
    assert.deepEqual(decodeProtectedHeader(issued), { alg: name, typ: 'JWT', kid: published.kid });
    const key = { ...published, kty: String(published.kty), key_ops: [...published.key_ops] };
    assert.equal(await calculateJwkThumbprint(key), published.kid);
    await jwtVerify(issued, createLocalJWKSet({ keys: [key] }), { audience: 'aud', issuer: 'iss' });
    assert.equal(published.d, undefined);
  });
}
