import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../../lib/observe/log.js';
import { readSettings } from '../../../lib/settings/options.js';
import { SERVER_SETTINGS } from '../../options.js';
import { type BundleLocation, bundleLocation } from './bundle-api-config.js';

function locate(env: Record<string, string>): BundleLocation {
  return bundleLocation(readSettings(SERVER_SETTINGS, { env }).values);
}

function authorization({ auth }: BundleLocation): string | undefined {
  return auth.kind === 'header' ? auth.value.reveal() : undefined;
}

test('the bundle is below the base, whose query is kept and not shown', () => {
  for (const [base, url, display] of [
    ['http://h:8080', 'http://h:8080/bundle.tar.gz', 'http://h:8080/bundle.tar.gz'],
    ['https://h/a/b/', 'https://h/a/b/bundle.tar.gz', 'https://h/a/b/bundle.tar.gz'],
    ['https://h/a/?sig=s3cret', 'https://h/a/bundle.tar.gz?sig=s3cret', 'https://h/a/bundle.tar.gz'],
    ['https://u:p@h/a#x', 'https://h/a/bundle.tar.gz', 'https://h/a/bundle.tar.gz'],
  ] as const) {
    const location = locate({ SYNC_POLICY_BUNDLE_URL: base });
    assert.deepEqual([location.url.href, location.display], [url, display]);
  }
});

test('credentials: none, a bearer token, or user and password of the URL', () => {
  const SYNC_POLICY_BUNDLE_URL = 'http://h/';
  assert.equal(locate({ SYNC_POLICY_BUNDLE_URL }).auth.kind, 'none');
  assert.equal(authorization(locate({ SYNC_POLICY_BUNDLE_URL, SYNC_POLICY_BUNDLE_SERVER_TOKEN: 'tok' })), 'Bearer tok');
  const basic = locate({ SYNC_POLICY_BUNDLE_URL: 'http://me:p%40ss@h/' });
  assert.equal(authorization(basic), `Basic ${Buffer.from('me:p@ss').toString('base64')}`);
});

test('the settings of the bundle server have three names, with and without prefix', () => {
  for (const prefix of ['SYNC_', '', 'OPAL_']) {
    const { auth } = locate({
      SYNC_POLICY_BUNDLE_URL: 'http://h/bucket',
      [`${prefix}POLICY_BUNDLE_SERVER_TYPE`]: 'AWS-S3',
      [`${prefix}POLICY_BUNDLE_SERVER_TOKEN_ID`]: 'id',
      [`${prefix}POLICY_BUNDLE_SERVER_TOKEN`]: 'key',
      [`${prefix}POLICY_BUNDLE_SERVER_AWS_REGION`]: 'eu-west-1',
    });
    assert(auth.kind === 's3');
    assert.deepEqual(
      [auth.accessKeyId.reveal(), auth.secretAccessKey.reveal(), auth.region],
      ['id', 'key', 'eu-west-1'],
    );
  }
});

test('the region is us-east-1 where none is set', () => {
  const { auth } = locate({
    SYNC_POLICY_BUNDLE_URL: 'http://h/bucket',
    SYNC_POLICY_BUNDLE_SERVER_TYPE: 'AWS-S3',
    SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID: 'id',
    SYNC_POLICY_BUNDLE_SERVER_TOKEN: 'key',
  });
  assert.equal(auth.kind === 's3' && auth.region, 'us-east-1');
});

test('settings that do not fit together are named, and no secret is', () => {
  const s3 = { SYNC_POLICY_BUNDLE_URL: 'http://h/b', SYNC_POLICY_BUNDLE_SERVER_TYPE: 'AWS-S3' };
  const id = { SYNC_POLICY_BUNDLE_SERVER_TOKEN_ID: 's3cret-id' };
  const token = { SYNC_POLICY_BUNDLE_SERVER_TOKEN: 's3cret' };
  for (const [env, says] of [
    [{}, /SYNC_POLICY_BUNDLE_URL must be set/],
    [{ SYNC_POLICY_BUNDLE_URL: 'ws://u:s3cret@h/' }, /must start with http/],
    [s3, /TOKEN_ID .* SYNC_POLICY_BUNDLE_SERVER_TOKEN .* must be set/],
    [{ ...s3, ...id }, /must be set/],
    [{ ...s3, ...token }, /must be set/],
    [{ ...s3, ...id, ...token, SYNC_POLICY_BUNDLE_URL: 'http://u:s3cret@h/b' }, /give one of them/],
    [{ ...s3, ...id, ...token, SYNC_POLICY_BUNDLE_URL: 'http://h/100%' }, /cannot be signed/],
    [{ ...s3, ...id, ...token, SYNC_POLICY_BUNDLE_URL: 'http://h/a/..%2f../b' }, /cannot be signed/],
    [{ ...token, SYNC_POLICY_BUNDLE_URL: 'http://u:s3cret@h/b' }, /give one of them/],
    [{ SYNC_POLICY_BUNDLE_URL: 'http://u:s3cret%@h/b' }, /no escape/],
    [
      { SYNC_POLICY_BUNDLE_URL: 'http://h/', SYNC_POLICY_BUNDLE_SERVER_TOKEN: 's3cret\nx' },
      /characters that no token has/,
    ],
  ] as const) {
    assert.throws(
      () => locate(env),
      (error: Error & { code: string }) => {
        assert.deepEqual([error.code, says.test(error.message)], ['config_invalid', true], error.message);
        return !error.message.includes('s3cret');
      },
    );
  }
});

test('secrets of the location print as such', () => {
  const location = locate({ SYNC_POLICY_BUNDLE_URL: 'http://h/', SYNC_POLICY_BUNDLE_SERVER_TOKEN: 's3cret' });
  assert(location.auth.kind === 'header' && location.auth.value instanceof Secret);
  assert(!JSON.stringify(location).includes('s3cret'));
});
