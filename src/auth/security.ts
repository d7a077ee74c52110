import { createPublicKey } from 'node:crypto';
import { SyncError } from '../lib/errors.js';
import { jwtAlgorithm } from './algorithms.js';
import { type Authenticator, anonymousAuth } from './caller.js';
import { createIssuer, type TokenIssuer } from './issue.js';
import { type PublishedKey, publishedKey } from './jwks.js';
import { loadPrivateKey, loadPublicKey } from './keys.js';
import { createPageSessions, type PageSessions } from './page-session.js';
import type { IssueSettings, VerifySettings } from './settings.js';
import { createVerifier, type VerifyOptions } from './verify.js';

/** What a server needs to know its callers and to give them tokens. */
export interface ServerSecurity {
  readonly authenticator: Authenticator;
  /** Undefined: there are no keys, authentication is off. */
  readonly issuer: TokenIssuer | undefined;
  /** Undefined: authentication is off, and nobody has to sign in. */
  readonly pageSessions: PageSessions | undefined;
  /** The keys that verify our tokens, for everyone to read. */
  readonly publishedKeys: readonly PublishedKey[];
}

/**
 * Authentication of a client: on with SYNC_AUTH_PUBLIC_KEY. Rejects with `config_invalid` for a key
 * that cannot be used: the client then does not start, where OPAL's would run open (opal-protocol
 * P10.8).
 */
export async function clientAuthenticator(settings: VerifySettings): Promise<Authenticator> {
  if (settings.authPublicKey === undefined) return anonymousAuth();
  const options = verifyOptions(settings);
  return createVerifier(options, { publicKey: await loadPublicKey(settings.authPublicKey, options.algorithm) });
}

/**
 * Authentication of a server: on with both keys, off with none. Rejects with `config_invalid` for
 * one without the other, a pair that does not fit together, and a key that cannot be used.
 */
export async function serverSecurity(settings: VerifySettings & IssueSettings): Promise<ServerSecurity> {
  const { authPublicKey, authPrivateKey } = settings;
  if (authPublicKey === undefined && authPrivateKey === undefined) {
    return { authenticator: anonymousAuth(), issuer: undefined, pageSessions: undefined, publishedKeys: [] };
  }
  if (authPublicKey === undefined || authPrivateKey === undefined) {
    const [set, missing] = authPublicKey === undefined ? ['PRIVATE', 'PUBLIC'] : ['PUBLIC', 'PRIVATE'];
    throw new SyncError(
      'config_invalid',
      `SYNC_AUTH_${set}_KEY is set without SYNC_AUTH_${missing}_KEY: set both, or none`,
    );
  }
  const options = verifyOptions(settings);
  const publicKey = await loadPublicKey(authPublicKey, options.algorithm);
  const privateKey = await loadPrivateKey(authPrivateKey, settings.authPrivateKeyPassphrase, options.algorithm);
  if (!createPublicKey(privateKey).equals(publicKey)) {
    throw new SyncError('config_invalid', 'SYNC_AUTH_PRIVATE_KEY and SYNC_AUTH_PUBLIC_KEY are not of one pair');
  }
  const published = await publishedKey(publicKey, options.algorithm);
  return {
    authenticator: await createVerifier(options, { publicKey }),
    issuer: await createIssuer({ ...options, keyId: published.kid }, { privateKey }),
    pageSessions: createPageSessions(options, { privateKey }),
    publishedKeys: [published],
  };
}

function verifyOptions(settings: VerifySettings): VerifyOptions {
  return {
    algorithm: jwtAlgorithm(settings.authAlgorithm),
    audience: settings.authAudience,
    issuer: settings.authIssuer,
    allowNoExpiry: settings.authAllowNoExpiry,
  };
}
