import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSettings } from '../../../lib/settings/options.js';
import { CLIENT_SETTINGS } from '../../options.js';
import { selectEngine } from '../engine-kind.js';
import { checkEngineAccess } from './engine-auth-rules.js';

const HTTPS = { SYNC_POLICY_STORE_URL: 'https://localhost:8181' };
const OWN = { SYNC_POLICY_STORE_TLS_CLIENT_CERT: 'c.pem', SYNC_POLICY_STORE_TLS_CLIENT_KEY: 'c.key' };
const EXTERNAL = { SYNC_INLINE_ENGINE_ENABLED: 'false' };
const inline = (config: object): Record<string, string> => ({ SYNC_INLINE_ENGINE_CONFIG: JSON.stringify(config) });
const CERT = { tls_cert_file: 'e.pem', tls_private_key_file: 'e.key' };
const type = (name: string): Record<string, string> => ({ SYNC_POLICY_STORE_AUTH_TYPE: name });

function check(env: Record<string, string>): void {
  const { values } = readSettings(CLIENT_SETTINGS, { env });
  checkEngineAccess(values, selectEngine(values)?.kind ?? 'inline');
}

for (const [what, env] of [
  ['nothing set', {}],
  ['a token', { ...type('token'), SYNC_POLICY_STORE_AUTH_TOKEN: 't' }],
  [
    'oauth',
    {
      ...type('oauth'),
      SYNC_POLICY_STORE_AUTH_OAUTH_SERVER: 'https://login.example/token',
      SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID: 'id',
      SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET: 's',
    },
  ],
  ['tls, external', { ...HTTPS, ...EXTERNAL, ...type('tls'), ...OWN, SYNC_POLICY_STORE_TLS_CA: 'ca.pem' }],
  ['inline with a certificate', { ...HTTPS, ...inline(CERT) }],
  [
    'inline that asks for a certificate',
    {
      ...HTTPS,
      ...type('tls'),
      ...OWN,
      SYNC_POLICY_STORE_TLS_CA: 'ca.pem',
      ...inline({ ...CERT, authentication: 'tls', tls_ca_cert_file: 'ca.pem' }),
    },
  ],
  ['inline with an authorization policy', inline({ authorization: 'basic', files: ['authz.rego'] })],
] as const) {
  test(`accepts ${what}`, () => check(env));
}

for (const [what, env, ...says] of [
  ['token without a token', type('token'), /SYNC_POLICY_STORE_AUTH_TYPE token needs SYNC_POLICY_STORE_AUTH_TOKEN/],
  [
    'oauth without its settings',
    type('oauth'),
    /needs SYNC_POLICY_STORE_AUTH_OAUTH_SERVER, SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_ID, SYNC_POLICY_STORE_AUTH_OAUTH_CLIENT_SECRET/,
  ],
  [
    'tls without its files and without https',
    { ...EXTERNAL, ...type('tls') },
    /needs SYNC_POLICY_STORE_TLS_CLIENT_CERT, SYNC_POLICY_STORE_TLS_CLIENT_KEY, SYNC_POLICY_STORE_TLS_CA/,
    /SYNC_POLICY_STORE_URL must start with https/,
  ],
  [
    'an inline certificate without its key',
    { ...HTTPS, ...inline({ tls_cert_file: 'e.pem' }) },
    /tls_private_key_file/,
  ],
  ['an inline certificate behind http', inline(CERT), /SYNC_POLICY_STORE_URL must start with https/],
  ['https to an inline engine without a certificate', HTTPS, /SYNC_INLINE_ENGINE_CONFIG needs tls_cert_file/],
  [
    'an inline engine that asks for a certificate that we do not have',
    { ...HTTPS, ...inline({ ...CERT, authentication: 'tls', tls_ca_cert_file: 'ca.pem' }) },
    /set SYNC_POLICY_STORE_AUTH_TYPE tls/,
  ],
  [
    'an inline engine that would refuse everything',
    inline({ authorization: 'basic' }),
    /needs a policy for package system\.authz/,
  ],
] as const) {
  test(`refuses ${what}`, () => {
    for (const message of says) assert.throws(() => check(env), { code: 'config_invalid', message });
  });
}
