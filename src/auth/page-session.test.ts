import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { ANONYMOUS, type Caller, expiresAtMs } from './caller.js';
import { createPageSessions } from './page-session.js';
import { subjectOfName } from './token-name.js';

const EXPECTED = { audience: 'aud', issuer: 'iss', allowNoExpiry: false };
const HOUR_MS = 3_600_000;
const { privateKey } = generateKeyPairSync('ed25519');
const SUB = '5a8e53a5421042178180d29a6851552b';

/** Sessions at a clock that a test sets. */
function sessionsAt(start: number, key = privateKey, expected = EXPECTED) {
  let now = start;
  const sessions = createPageSessions(expected, { privateKey: key, now: () => now });
  return { sessions, setClock: (ms: number) => (now = ms) };
}

/** The caller of a token with these claims. */
function callerWith(claims: Readonly<Record<string, unknown>>): Caller {
  const all = { sub: SUB, aud: 'aud', iss: 'iss', peer_type: 'listener', exp: 1_000_000, ...claims };
  return { ...ANONYMOUS, subject: SUB, peerType: all.peer_type as Caller['peerType'], claims: all };
}

function refusedWith(code: string, text: RegExp) {
  return (error: unknown) => error instanceof SyncError && error.code === code && text.test(error.message);
}

test('a session is for the caller of the token, and keeps its limits and nothing that it does not need', () => {
  const { sessions } = sessionsAt(0);
  const limits = { permitted_topics: ['a', 'b/c'], permitted_paths: ['/a'] };
  const { value } = sessions.seal(callerWith({ ...limits, secret: 'tenant-key', iat: 1 }));
  const caller = sessions.open(value);
  assert.equal(caller.subject, SUB);
  assert.equal(caller.peerType, 'listener');
  assert.deepEqual([...(caller.permittedTopics ?? [])], ['a', 'b/c']);
  assert.deepEqual(caller.permittedPaths, [['a']]);
  assert.equal(caller.token, undefined);
  assert.deepEqual(
    Object.keys(caller.claims).sort(),
    ['aud', 'exp', 'iss', 'peer_type', 'sub', ...Object.keys(limits)].sort(),
  );
});

test('a session has the name of its token, and none that does not count', () => {
  const { sessions } = sessionsAt(0);
  const named = callerWith({ sub: subjectOfName('ann'), name: 'ann' });
  assert.equal(sessions.open(sessions.seal({ ...named, subject: 'ann' }).value).subject, 'ann');
  const other = sessions.open(sessions.seal(callerWith({ name: 'n'.repeat(100_000) })).value);
  assert.deepEqual([other.subject, other.claims.name], [SUB, undefined]);
});

test('a session ends with its token, after 8 hours at the latest', () => {
  for (const [exp, endsAtMs] of [
    [3_600, HOUR_MS],
    [8 * 3_600, 8 * HOUR_MS],
    [9 * 3_600, 8 * HOUR_MS],
    [undefined, 8 * HOUR_MS],
  ] as const) {
    const { sessions, setClock } = sessionsAt(0);
    const sealed = sessions.seal(callerWith({ exp }));
    assert.equal(sealed.endsAtMs, endsAtMs);
    setClock(endsAtMs - 1);
    assert.equal(expiresAtMs(sessions.open(sealed.value)), endsAtMs, 'what ends streams');
    setClock(endsAtMs);
    assert.throws(() => sessions.open(sealed.value), refusedWith('unauthorized', /has ended/));
  }
});

test('an instance with the same key reads what another one sealed; one with another key does not', () => {
  const { value } = sessionsAt(0).sessions.seal(callerWith({}));
  assert.equal(sessionsAt(0).sessions.open(value).subject, SUB);
  const other = sessionsAt(0, generateKeyPairSync('ed25519').privateKey);
  assert.throws(() => other.sessions.open(value), refusedWith('unauthorized', /not one of this server/));
  const moved = sessionsAt(0, privateKey, { ...EXPECTED, audience: 'elsewhere' });
  assert.throws(() => moved.sessions.open(value), refusedWith('unauthorized', /audience/));
});

test('a value that was changed at any place is none, and neither is anything else', () => {
  const { sessions } = sessionsAt(0);
  const { value } = sessions.seal(callerWith({}));
  const bytes = Buffer.from(value, 'base64url');
  const refused = refusedWith('unauthorized', /not one of this server/);
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.throws(() => sessions.open(changed.toString('base64url')), refused, `byte ${at}`);
  }
  for (const other of ['', 'a', value.slice(0, -4), value.slice(4), 'A'.repeat(38), 'A'.repeat(100_000), '%00', 'é'])
    assert.throws(() => sessions.open(other), refused, other.slice(0, 50));
});

test('two sessions of one token look nothing alike', () => {
  const { sessions } = sessionsAt(0);
  const [one, other] = [sessions.seal(callerWith({})).value, sessions.seal(callerWith({})).value];
  assert.notEqual(one.slice(0, 16), other.slice(0, 16));
  assert.notEqual(one.slice(16), other.slice(16));
});

test('a token of another kind, or with limits that no cookie holds, says so', () => {
  const { sessions } = sessionsAt(0);
  for (const [peerType, text] of [
    ['client', /^This token is of kind client\. It needs to be listener or datasource\.$/],
    [undefined, /^This token says no kind\./],
  ] as const)
    assert.throws(() => sessions.seal(callerWith({ peer_type: peerType })), refusedWith('sign_in_refused', text));
  const topics = Array.from({ length: 500 }, (_, index) => `topic-${index}`);
  assert.throws(
    () => sessions.seal(callerWith({ permitted_topics: topics })),
    refusedWith('sign_in_refused', /more topics and paths than a cookie can hold/),
  );
});
