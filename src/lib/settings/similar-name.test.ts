import assert from 'node:assert/strict';
import { it } from 'node:test';
import { didYouMean, similarName, surelyMeant } from './similar-name.js';

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

it('words that are there count for more than letters that are like it', () => {
  const names = ['server-host', 'server-bind-port', 'server-url'];
  for (const name of ['server-port', 'serverPort', 'SYNC_SERVER_PORT', '--server-prot'])
    assert.equal(didYouMean(name, names), ': did you mean server-bind-port?', name);
  assert.equal(didYouMean('sever-url', names), ': did you mean server-url?');
});

it('a name of several is shown as the place calls it, once', () => {
  const names = new Map([
    ['bindPort', '--port'],
    ['SYNC_BIND_PORT', '--port'],
    ['SYNC_BIND_HOST', '--host'],
  ]);
  assert.equal(didYouMean('BIND_PORT', names), ': did you mean --port?');
  assert.equal(didYouMean('bind', names), ': did you mean --port or --host?');
});

it('a name that may be somebody else’s is refused only for a slip, or words that are there', () => {
  const names = [
    'SYNC_POLICY_REPO_URL',
    'SYNC_POLICY_REPO_MAIN_BRANCH',
    'SYNC_CLIENT_TOKEN',
    'SYNC_ENGINE',
    'SYNC_SERVER_URL',
  ];
  for (const [name, meant] of [
    ['SYNC_POLICY_REPO_ULR', ['SYNC_POLICY_REPO_URL']],
    ['SYNC_POLICYREPOURL', ['SYNC_POLICY_REPO_URL']],
    ['SYNC_POLICY_REPO_BRANCH', ['SYNC_POLICY_REPO_MAIN_BRANCH']],
    ['SYNC_REPO_URL', ['SYNC_POLICY_REPO_URL']],
    ['SYNC_CLIENT_TOKNE', ['SYNC_CLIENT_TOKEN']],
    ['SYNC_ENGNE', ['SYNC_ENGINE']],
    ['SYNC_URL', []],
    ['SYNC_MAIN_BRANCH', []],
    ['SYNC_TOKEN', []],
    ['SYNC_GATEWAY_URL', []],
    ['SYNC_INTERVAL', []],
    ['SYNC_ENABLED', []],
    ['SYNC_', []],
  ] as const)
    assert.deepEqual(surelyMeant(name, names), meant, name);
});
