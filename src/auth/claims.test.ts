import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { checkClaims } from './claims.js';

const EXPECTED = { audience: 'aud', issuer: 'iss', allowNoExpiry: false };
const NOW = 1_000;
const GOOD = { exp: NOW + 1, aud: 'aud', iss: 'iss', sub: '5a8e53a5421042178180d29a6851552b', peer_type: 'client' };

/** The text of the refusal; undefined: not refused. */
function refusal(changed: object, expected = EXPECTED): string | undefined {
  try {
    checkClaims({ ...GOOD, ...changed }, expected, NOW);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof SyncError && error.code === 'unauthorized');
    assert.deepEqual(error.detail, { error: error.message });
    return error.message;
  }
}

const ROWS: [string, object, string | undefined][] = [
  ['good', {}, undefined],
  ['a dashed subject', { sub: '5a8e53a5-4210-4217-8180-d29a6851552b' }, undefined],
  ['an audience among others', { aud: ['other', 'aud'] }, undefined],
  ['no peer type', { peer_type: undefined }, undefined],
  ['expired', { exp: NOW - 1 }, 'Access token is expired'],
  ['expired this moment', { exp: NOW }, 'Access token is expired'],
  ['expired and of another audience', { exp: 1, aud: 'x' }, 'Access token is expired'],
  ['without exp', { exp: undefined }, 'Invalid access token: missing exp claim'],
  ['exp that is no number', { exp: '9999999999' }, 'Could not decode access token'],
  ['valid within the leeway for clocks', { nbf: NOW + 60 }, undefined],
  ['not yet valid', { nbf: NOW + 61 }, 'Access token is not valid yet (nbf claim): compare the clocks'],
  ['not valid before something else', { nbf: 'now' }, 'Invalid access token: nbf claim is not a number'],
  ['another audience', { aud: 'x' }, 'Invalid access token: invalid audience claim'],
  ['an audience that only begins so', { aud: 'aud2' }, 'Invalid access token: invalid audience claim'],
  ['no audience', { aud: undefined }, 'Unknown JWT error'],
  ['another issuer', { iss: 'x' }, 'Invalid access token: invalid issuer claim'],
  ['a list of issuers', { iss: ['iss'] }, 'Invalid access token: invalid issuer claim'],
  ['no issuer', { iss: undefined }, 'Unknown JWT error'],
  ['no subject', { sub: undefined }, 'invalid sub claim'],
  ['a subject that is no UUID', { sub: 'ann' }, 'invalid sub claim'],
  ['permitted_topics that is a text', { permitted_topics: 'a' }, 'invalid permitted_topics claim'],
  ['permitted_topics that is null', { permitted_topics: null }, 'invalid permitted_topics claim'],
  ['permitted_topics with a number', { permitted_topics: ['a', 1] }, 'invalid permitted_topics claim'],
];
for (const [name, changed, text] of ROWS) {
  test(`claims: ${name} ${text === undefined ? 'is taken' : 'is refused'}`, () => assert.equal(refusal(changed), text));
}

test('a token without exp is taken only where the setting allows it', () => {
  assert.equal(refusal({ exp: undefined }, { ...EXPECTED, allowNoExpiry: true }), undefined);
  assert.equal(refusal({ exp: 1 }, { ...EXPECTED, allowNoExpiry: true }), 'Access token is expired');
});

test('claims become what the holder may do; an empty list of topics permits none', () => {
  const facts = checkClaims({ ...GOOD, permitted_topics: [] }, EXPECTED, NOW);
  assert.deepEqual([facts.peerType, facts.permittedTopics], ['client', new Set()]);
  assert.equal(checkClaims({ ...GOOD, peer_type: 'admin' }, EXPECTED, NOW).peerType, undefined);
  assert.equal(checkClaims(GOOD, EXPECTED, NOW).permittedTopics, undefined);
});
