import { createCipheriv, createDecipheriv, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import { SyncError } from '../lib/errors.js';
import { parseJson } from '../lib/json/json.js';
import { type Caller, expiresAtMs, type PeerType } from './caller.js';
import { checkClaims, type ExpectedClaims, tokenRefused } from './claims.js';

/** Longest session, however long its token lives: a working day. */
const LONGEST_MS = 8 * 3_600_000;
/** Longest sealed session: browsers keep cookies of up to 4096 bytes with name and attributes. */
const LONGEST_VALUE = 3_900;
/** Kinds of tokens that may look at the live page. */
const PAGE_TYPES: readonly PeerType[] = ['listener', 'datasource'];
/** What a session keeps of a token: what says who it is, until when, and what it may do. */
const KEPT_CLAIMS = ['sub', 'nbf', 'aud', 'iss', 'peer_type', 'permitted_topics', 'permitted_paths'] as const;

const LABEL = 'policysync page session 1';
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * Sessions of the live page. Nothing is kept of them: a sealed value has all, and every instance
 * with the same key reads it.
 */
export interface PageSessions {
  /**
   * A session for the caller of a token, until the token ends, for 8 hours at most. Throws
   * `sign_in_refused` for a token of another kind than listener or datasource, and for one whose
   * limits fit into no cookie.
   */
  seal(caller: Caller): { readonly value: string; readonly endsAtMs: number };
  /**
   * Who a sealed value is for. `expiresAtMs` of it is the end of the session. Throws `unauthorized`
   * for one that ended, or is not ours.
   */
  open(value: string): Caller;
}

/**
 * Sessions that are sealed (AES-256-GCM) with a key that is derived (HKDF) from the private key for
 * tokens: an instance needs no memory of what another one sealed, and new keys end every session,
 * as they end every token. The token itself is not in the value, so whoever steals one has a
 * session, and no token.
 */
export function createPageSessions(
  expected: ExpectedClaims,
  { privateKey, now = Date.now }: { privateKey: KeyObject; now?: () => number },
): PageSessions {
  let derived: Buffer | undefined;
  const key = (): Buffer => {
    const secret = (): Buffer => privateKey.export({ type: 'pkcs8', format: 'der' });
    derived ??= Buffer.from(hkdfSync('sha256', secret(), '', LABEL, 32));
    return derived;
  };
  return {
    seal: (caller) => {
      refuseOtherKinds(caller);
      const endsAtSeconds = Math.floor(
        Math.min(expiresAtMs(caller) ?? Number.POSITIVE_INFINITY, now() + LONGEST_MS) / 1000,
      );
      const { claims } = caller;
      // A name that does not count is left out: another issuer may have made it long.
      const names = claims.name === caller.subject ? [...KEPT_CLAIMS, 'name'] : KEPT_CLAIMS;
      const kept = names.flatMap((name) => (name in claims ? [[name, claims[name]]] : []));
      const value = seal(JSON.stringify({ ...Object.fromEntries(kept), exp: endsAtSeconds }), key());
      if (value.length <= LONGEST_VALUE) return { value, endsAtMs: endsAtSeconds * 1000 };
      const text =
        'This token has more topics and paths than a cookie can hold. Sign in with one that is limited to fewer.';
      throw new SyncError('sign_in_refused', text);
    },
    open: (value) => {
      const claims = unsealed(value, key());
      if (typeof claims.exp !== 'number' || claims.exp * 1000 <= now())
        throw tokenRefused('The session has ended: sign in again.');
      return { ...checkClaims(claims, expected, now() / 1000), claims: Object.freeze(claims), token: undefined };
    },
  };
}

function refuseOtherKinds({ peerType }: Caller): void {
  if (peerType !== undefined && PAGE_TYPES.includes(peerType)) return;
  const kind = peerType === undefined ? 'says no kind' : `is of kind ${peerType}`;
  throw new SyncError('sign_in_refused', `This token ${kind}. It needs to be listener or datasource.`);
}

function seal(text: string, key: Buffer): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(LABEL));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString('base64url');
}

function unsealed(value: string, key: Buffer): Record<string, unknown> {
  const bytes = value.length > LONGEST_VALUE ? Buffer.alloc(0) : Buffer.from(value, 'base64url');
  const [nonce, tag] = [bytes.subarray(0, NONCE_BYTES), bytes.subarray(-TAG_BYTES)];
  if (bytes.length <= NONCE_BYTES + TAG_BYTES) throw notOurs();
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(LABEL))
    .setAuthTag(tag);
  let text: string;
  try {
    text = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8');
  } catch {
    throw notOurs(); // changed, or sealed with another key
  }
  return parseJson(text) as Record<string, unknown>; // sealed by `seal`
}

function notOurs(): SyncError {
  return tokenRefused('The session is not one of this server: sign in again.');
}
