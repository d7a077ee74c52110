import type { SettingValues } from '../lib/settings/setting.js';
import {
  choiceSetting,
  flagSetting,
  inGroup,
  orPath,
  secretSetting,
  textSetting,
} from '../lib/settings/setting-kinds.js';
import { JWT_ALGORITHMS } from './algorithms.js';
import { KEY_FORMATS } from './keys.js';

/** Settings of programs that verify tokens: server and client (opal-protocol P3.1, P8.2). */
export const VERIFY_SETTINGS = inGroup('Authentication', {
  authPublicKey: orPath(
    textSetting(
      'SYNC_AUTH_PUBLIC_KEY',
      'Public key that verifies tokens: its text or a file path. When set, authentication is on, and the server needs the private key too.',
      { form: 'key or file' },
    ),
  ),
  authPublicKeyFormat: choiceSetting(
    'SYNC_AUTH_PUBLIC_KEY_FORMAT',
    'Format of the public key. Only a hint: the actual format is detected.',
    { choices: KEY_FORMATS, default: 'ssh' },
  ),
  authAlgorithm: choiceSetting(
    'SYNC_AUTH_JWT_ALGORITHM',
    'Signature algorithm of tokens; no other one is accepted. ES521 is an alias of ES512.',
    { choices: JWT_ALGORITHMS, default: 'RS256' },
  ),
  authAudience: textSetting(
    'SYNC_AUTH_JWT_AUDIENCE',
    "Audience (claim aud) of tokens. The default is OPAL's, so that tokens work on both.",
    { default: 'https://api.opal.ac/v1/' },
  ),
  authIssuer: textSetting('SYNC_AUTH_JWT_ISSUER', "Issuer (claim iss) of tokens. The default is OPAL's.", {
    default: 'https://opal.ac/',
  }),
  authAllowNoExpiry: flagSetting(
    'SYNC_AUTH_ALLOW_TOKENS_WITHOUT_EXPIRY',
    'Accept tokens without the claim exp, which never expire.',
    { opal: null },
  ),
});

/** Settings of the program that also issues tokens: the server. */
export const ISSUE_SETTINGS = inGroup('Authentication', {
  authPrivateKey: orPath(
    secretSetting(
      'SYNC_AUTH_PRIVATE_KEY',
      'Private key that signs tokens: its text (in a single line, underscores stand for newlines) or a file path.',
    ),
  ),
  authPrivateKeyFormat: choiceSetting(
    'SYNC_AUTH_PRIVATE_KEY_FORMAT',
    'Format of the private key. Only a hint: the actual format is detected.',
    { choices: KEY_FORMATS, default: 'pem' },
  ),
  authPrivateKeyPassphrase: secretSetting('SYNC_AUTH_PRIVATE_KEY_PASSPHRASE', 'Passphrase of the private key.'),
  authMasterToken: secretSetting(
    'SYNC_AUTH_MASTER_TOKEN',
    'Token that POST /token requires. Unset: no tokens are issued.',
  ),
  authJwksUrl: textSetting('SYNC_AUTH_JWKS_URL', 'Path at which the public key is published.', {
    default: '/.well-known/jwks.json',
    form: 'path',
  }),
});

/** Values of {@link VERIFY_SETTINGS}, {@link ISSUE_SETTINGS}. */
export type VerifySettings = SettingValues<typeof VERIFY_SETTINGS>;
export type IssueSettings = SettingValues<typeof ISSUE_SETTINGS>;
