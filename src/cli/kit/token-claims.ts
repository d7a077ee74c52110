import { PEER_TYPES, type PeerType } from '../../auth/caller.js';
import { isRecord } from '../../lib/json/is-record.js';
import { jsonOrUndefined } from '../../lib/json/json-text.js';
import type { Secret } from '../../lib/observe/log.js';

/** The claims of a token, unverified; undefined for another text. */
export function claimsOf(token: string): Readonly<Record<string, unknown>> | undefined {
  const parts = token.split('.');
  if (parts.length !== 3) return undefined;
  const claims = jsonOrUndefined(Buffer.from(parts[1] ?? '', 'base64url').toString('utf8'));
  return isRecord(claims) ? { ...claims } : undefined;
}

/**
 * The type that a token says, unverified; undefined for another text, and for a type that we do not
 * know.
 */
export function peerTypeOf(token: Secret): PeerType | undefined {
  const type = claimsOf(token.reveal())?.peer_type;
  return PEER_TYPES.find((known) => known === type);
}

/**
 * Why a server rejected a token (401), in words; undefined where its own text says all. `isMaster`:
 * a master token was asked for.
 */
export function refusedTokenText(
  said: string,
  token: Secret | undefined,
  isMaster: boolean,
  nowMs = Date.now(),
): string | undefined {
  if (token === undefined) return undefined;
  const claims = claimsOf(token.reveal());
  if (isMaster) {
    if (claims === undefined) return 'the master token is not that of the server';
    return `what was given is a token${typeText(claims.peer_type)}, not the master token`;
  }
  // The text of our servers and OPAL's (opal-protocol P2.3).
  const [, has, needed] = /^Incorrect 'peer_type' claim: (\w+), expected: ([\w ]+)$/.exec(said) ?? [];
  if (has !== undefined) return `the token is of type ${has}, and this needs one of type ${needed}`;
  if (claims === undefined)
    return 'what was given is not a token (a JWT); perhaps it is the master token, for which `policysync token` issues one';
  if (typeof claims.exp === 'number' && said === 'Access token is expired') {
    const isOver = claims.exp * 1000 <= nowMs;
    return `the token expired on ${dayOf(claims.exp)}${isOver ? '' : ' by the clock of the server: that of this machine is behind it'}`;
  }
  return said === 'Could not decode access token' ? 'the token was not signed with the key of this server' : undefined;
}

function typeText(type: unknown): string {
  return typeof type === 'string' && /^\w{1,20}$/.test(type) ? ` of type ${type}` : '';
}

function dayOf(seconds: number): string {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.getTime()) ? 'an unknown day' : `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
