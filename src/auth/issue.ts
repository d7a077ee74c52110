import type { KeyObject } from 'node:crypto';
import type { JwtAlgorithm } from './algorithms.js';
import type { PeerType } from './caller.js';
import type { ExpectedClaims } from './claims.js';
import { hexOf, isUuid, subjectOfName } from './token-name.js';

/** The token to issue. */
export interface TokenRequest {
  /** A name, or a UUID, dashed or not. */
  readonly id: string;
  readonly type: PeerType;
  readonly ttlSeconds: number;
  /** Custom claims; none of `RESERVED_CLAIMS`. */
  readonly claims: Readonly<Record<string, unknown>>;
}

/** Makes tokens. */
export interface TokenIssuer {
  /**
   * Signs a token that is valid from now on. `expiresAtMs` is not rounded; the token's `exp` is,
   * down to seconds.
   */
  issue(request: TokenRequest): Promise<{ token: string; expiresAtMs: number }>;
}

/** How tokens are signed. */
export interface IssueOptions extends Pick<ExpectedClaims, 'audience' | 'issuer'> {
  readonly algorithm: JwtAlgorithm;
  /** The `kid` of the header: which key of the JWKS verifies it. */
  readonly keyId: string;
}

/**
 * Tokens as OPAL peers verify them (opal-protocol P3.2): integer times, `sub` as 32 hex digits, the
 * `name` that it is made of if the holder has one, `peer_type`, custom claims.
 */
export async function createIssuer(
  { algorithm, keyId, audience, issuer }: IssueOptions,
  { privateKey, now = Date.now }: { privateKey: KeyObject; now?: () => number },
): Promise<TokenIssuer> {
  const { CompactSign } = await import('jose');
  return {
    issue: async ({ id, type, ttlSeconds, claims }) => {
      const issuedAtMs = now();
      const expiresAtMs = issuedAtMs + ttlSeconds * 1000;
      const payload = {
        ...claims,
        iat: Math.floor(issuedAtMs / 1000),
        exp: Math.floor(expiresAtMs / 1000),
        aud: audience,
        iss: issuer,
        ...(isUuid(id) ? { sub: hexOf(id) } : { sub: subjectOfName(id), name: id }),
        peer_type: type,
      };
      const token = await new CompactSign(Buffer.from(JSON.stringify(payload)))
        .setProtectedHeader({ alg: algorithm, typ: 'JWT', kid: keyId })
        .sign(privateKey);
      return { token, expiresAtMs };
    },
  };
}
