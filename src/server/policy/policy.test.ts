import assert from 'node:assert/strict';
import { test } from 'node:test';
import { policyNotices } from './policy.js';

test("announces a head on our topics with its hash, and on OPAL's with its object", () => {
  assert.deepEqual(policyNotices({ oldHash: 'o', hash: 'n', changedDirectories: ['.', 'a', 'a/b'] }), [
    { topics: ['default:policy:.', 'default:policy:a', 'default:policy:a/b'], text: '"n"' },
    {
      topics: ['policy:.', 'policy:a', 'policy:a/b'],
      text: '{"old_policy_hash":"o","new_policy_hash":"n","changed_directories":[".","a","a/b"]}',
    },
  ]);
});
