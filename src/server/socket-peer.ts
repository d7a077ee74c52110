import { type Authenticator, expiresAtMs } from '../auth/caller.js';
import { ANY_PEER, type Peer } from '../pubsub/peer.js';

/**
 * Admits a peer to the socket (design D36): any valid token may subscribe, within its `permitted_topics`; only
 * `datasource` peers may publish. With authentication off everyone may do everything. Throws `unauthorized`.
 */
export async function socketPeer(authenticator: Authenticator, authorization: string | undefined): Promise<Peer> {
  const caller = await authenticator.authenticate(authorization);
  if (!authenticator.enabled) return ANY_PEER;
  return {
    subject: caller.subject,
    permittedTopics: caller.permittedTopics,
    permittedPaths: caller.permittedPaths,
    mayPublish: caller.peerType === 'datasource',
    expiresAtMs: expiresAtMs(caller),
  };
}
