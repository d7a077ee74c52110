import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { policyBundle, policyNotice } from './bundle.js';

const COMPLETE = {
  manifest: ['a.rego', 'data.json'],
  hash: 'h2',
  old_hash: null,
  data_modules: [{ path: '.', data: '{}' }],
  policy_modules: [{ path: 'a.rego', package_name: 'a', rego: 'package a' }],
  deleted_files: null,
};

describe('a policy bundle', () => {
  it('is read as our server and OPAL write it', () => {
    assert.deepEqual(policyBundle.parse(COMPLETE), COMPLETE);
    const { old_hash: _o, deleted_files: _d, ...least } = COMPLETE;
    assert.deepEqual(policyBundle.parse({ ...least, more: 1 }), least);
    const delta = { ...COMPLETE, old_hash: 'h1', deleted_files: { data_modules: ['a/b'] } };
    assert.deepEqual(policyBundle.parse(delta).deleted_files, { data_modules: ['a/b'], policy_modules: [] });
  });

  it('is refused where a member is missing or of another kind', () => {
    const bad: Record<string, object> = {
      'no hash': { ...COMPLETE, hash: undefined },
      'a number as hash': { ...COMPLETE, hash: 1 },
      'data as an object': { ...COMPLETE, data_modules: [{ path: '.', data: {} }] },
      'a module without a text': { ...COMPLETE, policy_modules: [{ path: 'a.rego' }] },
      'no manifest': { ...COMPLETE, manifest: null },
      'deleted files as a list': { ...COMPLETE, deleted_files: ['a.rego'] },
    };
    for (const [what, value] of Object.entries(bad)) assert.equal(policyBundle.safeParse(value).success, false, what);
  });
});

describe('a policy notice', () => {
  it("is a hash, or OPAL's object", () => {
    assert.equal(policyNotice.parse('abc'), 'abc');
    const opal = { old_policy_hash: 'a', new_policy_hash: 'b', changed_directories: ['.'] };
    assert.deepEqual(policyNotice.parse(opal), opal);
    for (const bad of ['', 1, null, {}, { ...opal, changed_directories: '.' }]) {
      assert.equal(policyNotice.safeParse(bad).success, false, JSON.stringify(bad));
    }
  });
});
