import { choiceSetting, flagSetting, type SettingValues, secretSetting, textSetting } from '../lib/options.js';
import { JWT_ALGORITHMS } from './algorithms.js';
import { KEY_FORMATS } from './keys.js';

const AUTH = 'Authentication';

/** Settings of whoever verifies tokens: server and client (opal-protocol P3.1, P8.2). */
export const VERIFY_SETTINGS = {
  authPublicKey: textSetting({
    env: 'SYNC_AUTH_PUBLIC_KEY',
    group: AUTH,
    form: 'key or file',
    description:
      'Public key that verifies tokens: its text or a file path. Set: authentication is on. The server needs the private key too.',
  }),
  authPublicKeyFormat: choiceSetting({
    env: 'SYNC_AUTH_PUBLIC_KEY_FORMAT',
    group: AUTH,
    choices: KEY_FORMATS,
    default: 'ssh',
    description: 'Form of the public key. Only a hint: the real form is recognised.',
  }),
  authAlgorithm: choiceSetting({
    env: 'SYNC_AUTH_JWT_ALGORITHM',
    group: AUTH,
    choices: JWT_ALGORITHMS,
    default: 'RS256',
    description: 'Signature algorithm of tokens; no other one is accepted. ES521 is another name of ES512.',
  }),
  authAudience: textSetting({
    env: 'SYNC_AUTH_JWT_AUDIENCE',
    group: AUTH,
    default: 'https://api.opal.ac/v1/',
    description: 'Audience (claim aud) of tokens. The default is the one of OPAL, so that tokens work on both.',
  }),
  authIssuer: textSetting({
    env: 'SYNC_AUTH_JWT_ISSUER',
    group: AUTH,
    default: 'https://opal.ac/',
    description: 'Issuer (claim iss) of tokens. The default is the one of OPAL.',
  }),
  authAllowNoExpiry: flagSetting({
    env: 'SYNC_AUTH_ALLOW_TOKENS_WITHOUT_EXPIRY',
    opal: null,
    group: AUTH,
    default: false,
    description: 'Accept tokens that have no claim exp and so never end.',
  }),
};

/** Settings of who also issues tokens: the server. */
export const ISSUE_SETTINGS = {
  authPrivateKey: secretSetting({
    env: 'SYNC_AUTH_PRIVATE_KEY',
    group: AUTH,
    description:
      'Private key that signs tokens: its text (an underscore stands for a newline where there is none) or a file path.',
  }),
  authPrivateKeyFormat: choiceSetting({
    env: 'SYNC_AUTH_PRIVATE_KEY_FORMAT',
    group: AUTH,
    choices: KEY_FORMATS,
    default: 'pem',
    description: 'Form of the private key. Only a hint: the real form is recognised.',
  }),
  authPrivateKeyPassphrase: secretSetting({
    env: 'SYNC_AUTH_PRIVATE_KEY_PASSPHRASE',
    group: AUTH,
    description: 'Passphrase of the private key.',
  }),
  authMasterToken: secretSetting({
    env: 'SYNC_AUTH_MASTER_TOKEN',
    group: AUTH,
    description: 'Token that POST /token asks for. Unset: no tokens are issued.',
  }),
  authJwksUrl: textSetting({
    env: 'SYNC_AUTH_JWKS_URL',
    group: AUTH,
    default: '/.well-known/jwks.json',
    form: 'path',
    description: 'Path where the public key is published.',
  }),
};

/** Values of {@link VERIFY_SETTINGS}, {@link ISSUE_SETTINGS}. */
export type VerifySettings = SettingValues<typeof VERIFY_SETTINGS>;
export type IssueSettings = SettingValues<typeof ISSUE_SETTINGS>;
