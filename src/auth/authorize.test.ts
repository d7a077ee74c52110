import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../lib/errors.js';
import { authorize, authorizeTopics } from './authorize.js';
import { ANONYMOUS, type Caller } from './caller.js';

const CALLER: Caller = { ...ANONYMOUS, subject: 's', peerType: undefined };

test('the refusal of a peer type says what it is and what is due', () => {
  const rows: [Partial<Caller>, RegExp][] = [
    [{}, /^Missing 'peer_type' claim$/],
    [{ claims: { peer_type: 'xx' } }, /^Invalid 'peer_type' claim: xx$/],
    [{ claims: { peer_type: { a: 1 } } }, /^Invalid 'peer_type' claim: object$/],
    [
      { peerType: 'client', claims: { peer_type: 'client' } },
      /^Incorrect 'peer_type' claim: client, expected: datasource$/,
    ],
  ];
  for (const [caller, message] of rows) {
    assert.throws(() => authorize({ access: ['datasource'], limited: 'own' }, { ...CALLER, ...caller }), {
      code: 'unauthorized',
      message,
    });
  }
});

test('where there is nothing for limited tokens any limit refuses, even one that permits nothing', () => {
  const free: Caller = { ...CALLER, peerType: 'listener' };
  const limits: Partial<Caller>[] = [
    { permittedTopics: new Set(['a']) },
    { permittedTopics: new Set() },
    { permittedPaths: [['a']] },
    { permittedPaths: [] },
  ];
  for (const access of ['token', ['listener']] as const) {
    authorize({ access, limited: 'nothing' }, free);
    for (const limit of limits) {
      authorize({ access, limited: 'own' }, { ...free, ...limit });
      assert.throws(() => authorize({ access, limited: 'nothing' }, { ...free, ...limit }), { code: 'token_limited' });
    }
  }
});

test('publishing is limited to the permitted topics, compared exactly', () => {
  authorizeTopics(['a', 'b'], undefined);
  authorizeTopics(['a', 'a'], new Set(['a', 'c']));
  assert.throws(
    () => authorizeTopics(['a', 'policy_data/users', 'A'], new Set(['a', 'policy_data'])),
    (error: unknown) => {
      assert.ok(error instanceof SyncError);
      assert.deepEqual(error.detail, { error: "Invalid 'topics' to publish {'policy_data/users', 'A'}" });
      return error.status === 401;
    },
  );
  assert.throws(() => authorizeTopics(['a'], new Set()), { code: 'topic_not_permitted' });
});
