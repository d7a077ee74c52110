import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Secret } from '../../lib/observe/log.js';
import { refusedTokenText } from './token-claims.js';

function token(claims: object): Secret {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return new Secret(`${part({ alg: 'RS256' })}.${part(claims)}.x`);
}

const PLAIN = new Secret('the-master-token');

it('says which type a token has and which is needed', () => {
  const said = "Incorrect 'peer_type' claim: client, expected: datasource or listener";
  assert.equal(
    refusedTokenText(said, token({ peer_type: 'client' }), false),
    'the token is of type client, and this needs one of type datasource or listener',
  );
});

it('tells a master token from a token, in both directions, and shows neither', () => {
  assert.match(refusedTokenText('Could not decode access token', PLAIN, false) ?? '', /perhaps it is the master token/);
  assert.equal(refusedTokenText('unauthorized', PLAIN, true), 'the master token is not that of the server');
  assert.equal(
    refusedTokenText('unauthorized', token({ peer_type: 'listener' }), true),
    'what was given is a token of type listener, not the master token',
  );
  assert.equal(
    refusedTokenText('unauthorized', token({ peer_type: 'x'.repeat(99) }), true),
    'what was given is a token, not the master token',
  );
});

it('says when a token expired, and that another key signed it', () => {
  const old = token({ exp: Date.UTC(2026, 0, 2, 3, 4) / 1000 });
  assert.equal(refusedTokenText('Access token is expired', old, false), 'the token expired on 2026-01-02 03:04 UTC');
  const before = Date.UTC(2026, 0, 2, 3, 3);
  assert.equal(
    refusedTokenText('Access token is expired', old, false, before),
    'the token expired on 2026-01-02 03:04 UTC by the clock of the server: that of this machine is behind it',
  );
  assert.match(refusedTokenText('Access token is expired', token({ exp: 1e300 }), false) ?? '', /unknown day/);
  assert.match(refusedTokenText('Could not decode access token', old, false) ?? '', /not signed with the key/);
});

it('adds nothing where the server says all, or no token was sent', () => {
  assert.equal(refusedTokenText("Invalid 'topics' to publish {'x'}", token({}), false), undefined);
  assert.equal(refusedTokenText('access token was not provided', undefined, false), undefined);
});
