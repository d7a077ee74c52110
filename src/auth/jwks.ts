import type { JsonWebKey, KeyObject } from 'node:crypto';
import type { JwtAlgorithm } from './algorithms.js';

/** A public key as others read it to verify our tokens (RFC 7517). */
export interface PublishedKey extends JsonWebKey {
  readonly kid: string;
  readonly alg: string;
  readonly use: 'sig';
  readonly key_ops: string[];
}

/**
 * A public key as a JWK; `kid` is its thumbprint (RFC 7638), so it is the same wherever the key is.
 */
export async function publishedKey(publicKey: KeyObject, algorithm: JwtAlgorithm): Promise<PublishedKey> {
  const { calculateJwkThumbprint } = await import('jose');
  const jwk = publicKey.export({ format: 'jwk' });
  return { ...jwk, kid: await calculateJwkThumbprint({ ...jwk }), alg: algorithm, use: 'sig', key_ops: ['verify'] };
}
