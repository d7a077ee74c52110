import type { KeyObject } from 'node:crypto';

/**
 * Signature algorithms of tokens. `ES521` is another name of OPAL for ES512. Not among them:
 * `none`, HS* (who can verify can sign), and ES256K.
 */
export const JWT_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'ES521',
  'EdDSA',
] as const;

/** A value of SYNC_AUTH_JWT_ALGORITHM. */
export type JwtAlgorithmName = (typeof JWT_ALGORITHMS)[number];
/** An algorithm as tokens name it (RFC 7518, RFC 8037). */
export type JwtAlgorithm = Exclude<JwtAlgorithmName, 'ES521'>;

/** Signature algorithms of OPA's bundles, whose HS* take a secret that both sides hold. */
export const BUNDLE_ALGORITHMS = [
  ...(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512'] as const),
  ...(['HS256', 'HS384', 'HS512'] as const),
] as const;
export type BundleAlgorithm = (typeof BUNDLE_ALGORITHMS)[number];

/** The name that stands in tokens. */
export function jwtAlgorithm(name: JwtAlgorithmName): JwtAlgorithm {
  return name === 'ES521' ? 'ES512' : name;
}

/** Smallest RSA key that RFC 7518 (3.3, 3.5) allows. */
const RSA_MIN_BITS = 2048;
/** Node's names of the curves. */
const CURVES = {
  ES256: { node: 'prime256v1', shown: 'P-256' },
  ES384: { node: 'secp384r1', shown: 'P-384' },
  ES512: { node: 'secp521r1', shown: 'P-521' },
} as const;

/**
 * What is wrong with a key for an algorithm, as the end of a sentence "the key ..."; undefined if
 * it fits.
 */
export function whyUnfit(key: KeyObject, algorithm: JwtAlgorithm): string | undefined {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (algorithm === 'EdDSA') return type === 'ed25519' ? undefined : `is of type ${type}, EdDSA needs ed25519`;
  if (algorithm === 'ES256' || algorithm === 'ES384' || algorithm === 'ES512') {
    const curve = CURVES[algorithm];
    if (type !== 'ec') return `is of type ${type}, ${algorithm} needs ec`;
    return details?.namedCurve === curve.node
      ? undefined
      : `is on the curve ${details?.namedCurve}, ${algorithm} needs ${curve.shown}`;
  }
  if (type !== 'rsa') return `is of type ${type}, ${algorithm} needs rsa`;
  const bits = details?.modulusLength ?? 0;
  return bits >= RSA_MIN_BITS ? undefined : `has ${bits} bits, ${algorithm} needs at least ${RSA_MIN_BITS}`;
}
