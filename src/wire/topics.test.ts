import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { expandTopic, expandTopics, opalPolicyTopic, policyTopic } from './topics.js';

describe('topics of policy', () => {
  it('have scope, prefix and directory; the OPAL form has no scope', () => {
    assert.equal(policyTopic('a/b'), 'default:policy:a/b');
    assert.equal(policyTopic('.', 'team'), 'team:policy:.');
    assert.equal(opalPolicyTopic('a/b'), 'policy:a/b');
  });
});

describe('topics that an update is published to', () => {
  const TABLE: Record<string, string[]> = {
    policy_data: ['policy_data'],
    'a/b/c': ['a', 'a/b', 'a/b/c'],
    'data:a/b': ['data:a', 'data:a/b'],
    'scope:data:a/b': ['scope:data:a', 'scope:data:a/b'],
    'x/y:a/b': ['x/y:a', 'x/y:a/b'],
    'a/': ['a', 'a/'],
    '/a': ['', '/a'],
    'data:': ['data:'],
    '': [''],
  };
  for (const [topic, all] of Object.entries(TABLE)) {
    it(`of ${JSON.stringify(topic)}`, () => assert.deepEqual(expandTopic(topic), all));
  }

  it('end with the topic itself, and each is the start of the next', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '/', ':', 'é') }), (topic) => {
        const all = expandTopic(topic);
        assert.equal(all.at(-1), topic);
        for (const [index, each] of all.entries()) assert((all[index + 1] ?? each).startsWith(each));
      }),
    );
  });

  it('name each topic of a list once, in order', () => {
    assert.deepEqual(expandTopics(['a/b', 'a/c', 'a', 'b']), ['a', 'a/b', 'a/c', 'b']);
    assert.deepEqual(expandTopics([]), []);
  });
});
