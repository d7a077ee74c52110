import { SyncError } from '../lib/errors.js';
import { type DocPath, isDocPath, parseDocPath } from '../wire/doc-path.js';
import { PEER_TYPES, type PeerType } from './caller.js';
import { holderOf, isUuid } from './token-name.js';

/** Claims that the server sets itself: custom claims of a `/token` request never replace them. */
export const RESERVED_CLAIMS = ['sub', 'exp', 'iat', 'aud', 'iss', 'nbf', 'jti', 'peer_type'] as const;

/** What a token must say. */
export interface ExpectedClaims {
  /** SYNC_AUTH_JWT_AUDIENCE, SYNC_AUTH_JWT_ISSUER. */
  readonly audience: string;
  readonly issuer: string;
  /** SYNC_AUTH_ALLOW_TOKENS_WITHOUT_EXPIRY. */
  readonly allowNoExpiry: boolean;
}

/** What the claims of a valid token mean. */
export interface TokenFacts {
  /** What the holder is called: a name, or a UUID. */
  readonly subject: string;
  /** Undefined: the token says none, or none that exists. */
  readonly peerType: PeerType | undefined;
  readonly permittedTopics: ReadonlySet<string> | undefined;
  readonly permittedPaths: readonly DocPath[] | undefined;
}

/**
 * The error for a token: 401 with OPAL's text (opal-protocol P3.2), which never shows any part of
 * the token.
 */
export function tokenRefused(text: string): SyncError {
  return new SyncError('unauthorized', text, { detail: { error: text } });
}

/** The error for a token of ours whose time is over, with OPAL's text. */
export class TokenExpired extends SyncError {
  readonly endedAtMs: number;

  constructor(endedAtMs: number) {
    const text = 'Access token is expired';
    super('unauthorized', text, { detail: { error: text } });
    this.endedAtMs = Math.max(endedAtMs, 0);
  }
}

/** The error for a token that was not signed with the key, or is none, with OPAL's text. */
export class TokenUndecodable extends SyncError {
  constructor() {
    const text = 'Could not decode access token';
    super('unauthorized', text, { detail: { error: text } });
  }
}

/** How far the clock of whoever issued a token may be ahead of ours. */
const LEEWAY_SECONDS = 60;

/**
 * Checks the claims of a token whose signature is good, in OPAL's order: time, audience, issuer,
 * subject. Leeway has only its beginning: a token is used right after it was issued, by a clock
 * that may be ahead. Throws `unauthorized`. A limiting claim that is malformed is an error, never
 * no limit.
 */
export function checkClaims(
  claims: Readonly<Record<string, unknown>>,
  expected: ExpectedClaims,
  nowSeconds: number,
): TokenFacts {
  const { exp, nbf, aud, iss, sub } = claims;
  if (exp === undefined) {
    if (!expected.allowNoExpiry) throw tokenRefused('Invalid access token: missing exp claim');
  } else if (typeof exp !== 'number' || !Number.isFinite(exp)) throw new TokenUndecodable();
  else if (exp <= nowSeconds) throw new TokenExpired(exp * 1000);
  if (nbf !== undefined) {
    if (typeof nbf !== 'number' || !Number.isFinite(nbf))
      throw tokenRefused('Invalid access token: nbf claim is not a number');
    if (nbf > nowSeconds + LEEWAY_SECONDS)
      throw tokenRefused('Access token is not valid yet (nbf claim): compare the clocks');
  }
  if (aud === undefined || iss === undefined) throw tokenRefused('Unknown JWT error');
  if (![aud].flat().includes(expected.audience)) throw tokenRefused('Invalid access token: invalid audience claim');
  if (iss !== expected.issuer) throw tokenRefused('Invalid access token: invalid issuer claim');
  if (typeof sub !== 'string' || !isUuid(sub)) throw tokenRefused('invalid sub claim');
  return {
    subject: holderOf(sub, claims.name),
    peerType: PEER_TYPES.find((type) => type === claims.peer_type),
    permittedTopics: permittedTopics(claims.permitted_topics),
    permittedPaths: permittedPaths(claims.permitted_paths),
  };
}

/** True for a value that the claim `permitted_topics` may have. */
export function isTopicList(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((topic) => typeof topic === 'string');
}

function permittedTopics(claim: unknown): ReadonlySet<string> | undefined {
  if (claim === undefined) return undefined;
  if (!isTopicList(claim)) throw tokenRefused('invalid permitted_topics claim');
  return new Set(claim);
}

/** True for a value that the claim `permitted_paths` may have: a list of document paths. */
export function isPathList(value: unknown): value is string[] {
  return (
    Array.isArray(value) && value.every((path) => typeof path === 'string' && path.startsWith('/') && isDocPath(path))
  );
}

function permittedPaths(claim: unknown): readonly DocPath[] | undefined {
  if (claim === undefined) return undefined;
  if (!isPathList(claim)) throw tokenRefused('invalid permitted_paths claim');
  return claim.map(parseDocPath);
}
