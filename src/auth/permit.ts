import { SyncError } from '../lib/errors.js';
import type { Access, Caller } from './caller.js';

/**
 * Throws `unauthorized` when a caller with a valid token is not of a kind that the route takes. The status is 401 and the
 * text is OPAL's, whose users script against it (protocol-facts 2.3).
 */
export function permit(access: Access, caller: Caller): void {
  if (access === 'everyone' || access === 'token') return;
  if (caller.peerType !== undefined && access.includes(caller.peerType)) return;
  const text =
    caller.peerType === undefined
      ? "Missing 'peer_type' claim"
      : `Incorrect 'peer_type' claim: ${caller.peerType}, expected: ${access.join(' or ')}`;
  throw new SyncError('unauthorized', text, { detail: { error: text } });
}
