import { createHash, type KeyObject } from 'node:crypto';
import { SyncError } from '../lib/errors.js';
import { isRecord } from '../lib/json/is-record.js';
import { parseJson } from '../lib/json/json.js';
import { Secret } from '../lib/observe/log.js';
import type { JwtAlgorithm } from './algorithms.js';
import { type Authenticator, bearerToken, type Caller } from './caller.js';
import { checkClaims, type ExpectedClaims, TokenUndecodable, tokenRefused } from './claims.js';

/** Most verified tokens that are cached: more than a fleet has, and a few MiB. */
const REMEMBERED_TOKENS = 10_000;

/** How tokens are verified. */
export interface VerifyOptions extends ExpectedClaims {
  readonly algorithm: JwtAlgorithm;
}

/** Dependencies of {@link createVerifier}. */
export interface VerifyDeps {
  readonly publicKey: KeyObject;
  /** Milliseconds since 1970. Default: the clock. */
  readonly now?: () => number;
}

/**
 * Authentication by tokens that the public key verifies (opal-protocol P3.2), with exactly the one
 * algorithm that is set. A valid signature is cached, since a fleet that reconnects sends the same
 * tokens again; the claims are checked each time. Rejects with `config_invalid` if the key cannot
 * verify tokens at all: no token is ever accepted unverified.
 */
export async function createVerifier(options: VerifyOptions, deps: VerifyDeps): Promise<Authenticator> {
  const { compactVerify, errors } = await import('jose');
  const { publicKey, now = Date.now } = deps;
  const known = new Map<string, Readonly<Record<string, unknown>>>();

  /** The claims of a token with a good signature. */
  async function claimsOf(token: string): Promise<Readonly<Record<string, unknown>>> {
    const hash = createHash('sha256').update(token).digest('base64');
    let claims = known.get(hash);
    if (claims === undefined) {
      claims = await verified(token);
      for (const oldest of known.keys()) {
        if (known.size < REMEMBERED_TOKENS) break;
        known.delete(oldest);
      }
      known.set(hash, claims);
    }
    return claims;
  }

  async function verified(token: string): Promise<Readonly<Record<string, unknown>>> {
    let payload: Uint8Array;
    try {
      ({ payload } = await compactVerify(token, publicKey, { algorithms: [options.algorithm] }));
    } catch (error) {
      if (error instanceof errors.JWSSignatureVerificationFailed || error instanceof errors.JWSInvalid) {
        throw new TokenUndecodable();
      }
      // For example another algorithm, `none` and HS256 among them.
      if (error instanceof errors.JOSEError) throw tokenRefused('Unknown JWT error');
      throw error;
    }
    return claimsObject(payload);
  }

  await refuseUnusableKey(() => verified(`${encoded({ alg: options.algorithm })}.e30.${'A'.repeat(86)}`));

  return {
    enabled: true,
    authenticate: async (authorization): Promise<Caller> => {
      const token = bearerToken(authorization);
      if (token === undefined) throw tokenRefused('access token was not provided');
      const claims = await claimsOf(token);
      return { ...checkClaims(claims, options, now() / 1000), claims, token: new Secret(token) };
    },
  };
}

function claimsObject(payload: Uint8Array): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = parseJson(new TextDecoder('utf-8', { fatal: true }).decode(payload));
  } catch {
    throw new TokenUndecodable(); // signed by us or not, it is no JWT
  }
  if (!isRecord(value)) {
    throw new TokenUndecodable();
  }
  return Object.freeze(value as Record<string, unknown>);
}

/** Checks that the key rejects a wrong signature; any other failure is the key's. */
async function refuseUnusableKey(tryToken: () => Promise<unknown>): Promise<void> {
  try {
    await tryToken();
  } catch (error) {
    if (error instanceof TokenUndecodable) return;
    throw new SyncError('config_invalid', 'SYNC_AUTH_PUBLIC_KEY cannot verify tokens', { cause: error });
  }
  throw new SyncError('config_invalid', 'SYNC_AUTH_PUBLIC_KEY takes any token');
}

function encoded(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
