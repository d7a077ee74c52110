import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { tokenFindings } from './token-facts.js';

const NOW = Date.UTC(2026, 0, 1);
const DAY_SECONDS = 86_400;

/** An unsigned token with these claims. */
function token(claims: object): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part(claims)}.x`;
}

/** Level and message of each finding for a token that ends after some days. */
function judged(claims: object, days = 100, topics = ['policy_data']): string[] {
  const exp = NOW / 1000 + days * DAY_SECONDS;
  const text = token({ exp, peer_type: 'client', ...claims });
  return tokenFindings(text, topics, NOW).map(({ level, message }) => `${level}: ${message}`);
}

describe('what a token says of itself', () => {
  it('type, topics, paths and end of a good one', () => {
    assert.deepEqual(judged({}), ['ok: type client, all topics, until 2026-04-11 00:00 UTC']);
    assert.deepEqual(judged({ permitted_topics: ['policy_data', 'x'], permitted_paths: ['/a'], exp: undefined }), [
      'ok: type client, topics policy_data, x, paths /a, without an end',
    ]);
  });

  it('an end that has come is an error, one that comes soon a warning', () => {
    assert.deepEqual(judged({}, -1), ['error: it expired on 2025-12-31 00:00 UTC']);
    assert.deepEqual(judged({}, 3), [
      'warning: it expires on 2026-01-04 00:00 UTC (type client, all topics, until 2026-01-04 00:00 UTC)',
    ]);
  });

  it('another type, and topics that it does not permit', () => {
    assert.deepEqual(judged({ peer_type: 'datasource' }), [
      'warning: it is for a datasource, not for a client (type datasource, all topics, until 2026-04-11 00:00 UTC)',
    ]);
    assert.deepEqual(judged({ peer_type: undefined, permitted_paths: [] }), [
      'warning: it is for a peer of no type, not for a client (no type, all topics, paths none, until 2026-04-11 00:00 UTC)',
    ]);
    assert.deepEqual(judged({ permitted_topics: ['x'] }), [
      'error: it does not permit the topics policy_data (type client, topics x, until 2026-04-11 00:00 UTC)',
    ]);
    // As the server compares them: a topic does not permit those below it.
    assert.match(judged({ permitted_topics: ['a'] }, 100, ['a/b']).join(), /^error: .*a\/b \(type client, topics a,/);
  });

  it('an end beyond the calendar is none', () => {
    assert.deepEqual(judged({ exp: 1e300 }), ['ok: type client, all topics, until +275760-09-13 00:00 UTC']);
    assert.match(judged({ exp: -1e300 }).join(), /^error: it expired on -271821-04-20/);
  });

  it('a text that is no token is not shown', () => {
    const [finding] = tokenFindings('the-secret-master-token', []);
    assert.equal(finding?.level, 'error');
    assert.doesNotMatch(JSON.stringify(finding), /the-secret/);
    assert.equal(tokenFindings('a.b.c', [])[0]?.level, 'error');
  });
});
