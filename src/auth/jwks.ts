import { createHash, type JsonWebKey, type KeyObject } from 'node:crypto';
import type { JwtAlgorithm } from './algorithms.js';

/** Members that identify a key, in the order of RFC 7638. */
const IDENTIFYING: Readonly<Record<string, readonly (keyof JsonWebKey)[]>> = {
  RSA: ['e', 'kty', 'n'],
  EC: ['crv', 'kty', 'x', 'y'],
  OKP: ['crv', 'kty', 'x'],
};

/** A public key as others read it to verify our tokens (RFC 7517). */
export interface PublishedKey extends JsonWebKey {
  readonly kid: string;
  readonly alg: string;
  readonly use: 'sig';
  readonly key_ops: readonly ['verify'];
}

/** The public half of a key as a JWK; `kid` is its thumbprint (RFC 7638), so it is the same wherever the key is. */
export function publishedKey(publicKey: KeyObject, algorithm: JwtAlgorithm): PublishedKey {
  const jwk = publicKey.export({ format: 'jwk' });
  const members = (IDENTIFYING[jwk.kty ?? ''] ?? []).map((name) => [name, jwk[name]]);
  const kid = createHash('sha256')
    .update(JSON.stringify(Object.fromEntries(members)))
    .digest('base64url');
  return { ...Object.fromEntries(members), kid, alg: algorithm, use: 'sig', key_ops: ['verify'] } as PublishedKey;
}
