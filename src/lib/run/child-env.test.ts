import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertNotOurs, childEnv } from './child-env.js';

const OURS = {
  PATH: '/bin',
  HOME: '/home/ann',
  LC_ALL: 'C',
  HTTPS_PROXY: 'http://proxy',
  SSL_CERT_FILE: '/ca.pem',
  SSH_AUTH_SOCK: '/agent',
  GIT_SSH_COMMAND: 'ssh -v',
  GOPROXY: 'direct',
  GOMEMLIMIT: '1GiB',
  SYNC_CLIENT_TOKEN: 'secret',
  OPAL_CLIENT_TOKEN: 'secret',
  AWS_SECRET_ACCESS_KEY: 'secret',
  REGION: 'eu',
  GONE: undefined,
};

test('a child is given what it needs to run, and nothing that is not listed', () => {
  const base = { PATH: '/bin', HOME: '/home/ann', LC_ALL: 'C', HTTPS_PROXY: 'http://proxy', SSL_CERT_FILE: '/ca.pem' };
  const git = { ...base, SSH_AUTH_SOCK: '/agent', GIT_SSH_COMMAND: 'ssh -v' };
  assert.deepEqual(childEnv(OURS, 'opa'), { ...base, GOMEMLIMIT: '1GiB' });
  assert.deepEqual(childEnv(OURS, 'git'), git);
});

test('what the operator names goes along; a star is no pattern there', () => {
  assert.equal(childEnv(OURS, 'opa', ['REGION', 'GONE', 'NEVER']).REGION, 'eu');
  assert.equal(childEnv(OURS, 'opa', ['AWS_*']).AWS_SECRET_ACCESS_KEY, undefined);
});

test('settings of our own are not handed on by name', () => {
  assertNotOurs(['REGION'], 'SYNC_X');
  assert.throws(
    () => assertNotOurs(['REGION', 'SYNC_CLIENT_TOKEN', 'opal_client_token'], 'SYNC_X'),
    /SYNC_X names SYNC_CLIENT_TOKEN, opal_client_token: settings of this program.*another name/,
  );
});
