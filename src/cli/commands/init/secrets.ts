import { generateKeyPair, randomBytes, randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { PEER_TYPES, type PeerType } from '../../../auth/caller.js';
import { serverSecurity } from '../../../auth/security.js';
import { ISSUE_SETTINGS, VERIFY_SETTINGS } from '../../../auth/settings.js';
import { readSettings } from '../../../lib/settings/options.js';
import type { NewFile } from './files.js';

/** Files of a set-up with authentication, in its folder. */
export const SECRET_FILES = {
  privateKey: 'secrets/auth-private-key.pem',
  publicKey: 'secrets/auth-public-key.pem',
  masterToken: 'secrets/master-token',
  webhookSecret: 'secrets/webhook-secret',
  clientToken: 'secrets/client-token',
  datasourceToken: 'secrets/datasource-token',
  listenerToken: 'secrets/listener-token',
} as const;

const KEY_BITS = 3072;
const SECRET_BYTES = 32;

const TOKEN_USES: Readonly<Record<PeerType, string>> = {
  client: 'of the clients',
  datasource: 'to publish data',
  listener: 'to read the state',
};

/** Keeps a folder out of git. */
export function ignoreAll(folder: string): NewFile {
  const text = '# Nothing here belongs in git.\n*\n';
  return { path: `${folder}/.gitignore`, text, mode: 0o644, about: 'keeps the folder out of git' };
}

/**
 * Makes keys, secrets and a token of each type, signed by the new key: no server has to run for it.
 */
export async function makeSecrets(ttlSeconds: number, nowMs = Date.now()): Promise<NewFile[]> {
  const pair = await promisify(generateKeyPair)('rsa', {
    modulusLength: KEY_BITS,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const env = { SYNC_AUTH_PRIVATE_KEY: pair.privateKey, SYNC_AUTH_PUBLIC_KEY: pair.publicKey };
  const { issuer } = await serverSecurity(readSettings({ ...VERIFY_SETTINGS, ...ISSUE_SETTINGS }, { env }).values);
  if (issuer === undefined) throw new Error('a pair of keys makes an issuer');
  const until = new Date(nowMs + ttlSeconds * 1000).toISOString().slice(0, 10);
  const tokens: NewFile[] = [];
  for (const type of PEER_TYPES) {
    const id = randomUUID();
    const { token } = await issuer.issue({ id, type, ttlSeconds, claims: {} });
    tokens.push(secret(SECRET_FILES[`${type}Token`], token, `token ${TOKEN_USES[type]}, until ${until}, id ${id}`));
  }
  const random = (): string => randomBytes(SECRET_BYTES).toString('base64url');
  return [
    ignoreAll('secrets'),
    { path: SECRET_FILES.privateKey, text: pair.privateKey, mode: 0o600, about: 'signs tokens: for the server alone' },
    {
      path: SECRET_FILES.publicKey,
      text: pair.publicKey,
      mode: 0o644,
      about: 'verifies tokens: for server and clients',
    },
    secret(SECRET_FILES.masterToken, random(), 'has the server issue more tokens (`policysync token`)'),
    secret(SECRET_FILES.webhookSecret, random(), 'for the webhook of the git service'),
    ...tokens,
  ];
}

function secret(path: string, text: string, about: string): NewFile {
  return { path, text: `${text}\n`, mode: 0o600, about };
}
