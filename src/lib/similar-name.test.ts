import assert from 'node:assert/strict';
import { it } from 'node:test';
import { didYouMean, similarName } from './similar-name.js';

const NAMES = ['policy-repo-url', 'policy-repo-env', 'server-url', 'log-level', 'port'];

it('the similar name is the same in another style, or differs in few letters', () => {
  for (const [name, wanted] of [
    ['policyRepoUrl', 'policy-repo-url'],
    ['policy_repo_url', 'policy-repo-url'],
    ['SYNC_POLICY_REPO_URL', 'policy-repo-url'],
    ['OPAL_LOG_LEVEL', 'log-level'],
    ['--log-level', 'log-level'],
    ['policy-repo-ulr', 'policy-repo-url'],
    ['polcy-repo-env', 'policy-repo-env'],
    ['sever-url', 'server-url'],
    ['loglevels', 'log-level'],
    ['prot', 'port'],
    ['host', undefined],
    ['completely-different', undefined],
    ['', undefined],
  ] as const) {
    assert.equal(similarName(name, NAMES), wanted, name);
  }
  assert.equal(didYouMean('prot', NAMES), ': did you mean port?');
  assert.equal(didYouMean('x', NAMES), '');
});

it('a hint names what has all words of a shorter name, up to three of them', () => {
  const names = [
    '--server-bind-port',
    '--policy-repo-main-branch',
    '--policy-repo-url',
    '--bundle-url',
    '--url-of-c',
    '--data-url',
  ];
  assert.equal(didYouMean('--port', names), ': did you mean --server-bind-port?');
  assert.equal(didYouMean('--policy-repo-branch', names), ': did you mean --policy-repo-main-branch?');
  assert.equal(didYouMean('--repo', names), ': did you mean --policy-repo-main-branch or --policy-repo-url?');
  assert.equal(didYouMean('--url', names), '', 'too many to help');
  assert.equal(didYouMean('--', names), '');
});
