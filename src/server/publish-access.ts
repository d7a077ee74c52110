import { authorizePaths, authorizeTopics } from '../auth/authorize.js';
import { type Authenticator, type Caller, expiresAtMs } from '../auth/caller.js';
import { invalidRequest, parseBody } from '../http/json-body.js';
import { ANY_PEER, type Peer } from '../pubsub/peer.js';
import { type DataSourceEntry, type DataUpdate, dataUpdate } from '../wire/data.js';
import { parseDocPath } from '../wire/doc-path.js';
import { parseKeepingData } from '../wire/inline-data.js';
import { MAX_PROBLEMS } from '../wire/lists.js';
import { expandTopics } from '../wire/topics.js';
import { checkUpdate } from './update-rules.js';

/** What of a caller, or of a peer on the socket, limits what it may publish. */
export type PublishLimits = Pick<Caller, 'permittedTopics' | 'permittedPaths'>;

type Entry = Pick<DataSourceEntry, 'topics' | 'dst_path'>;

/**
 * Throws `topic_not_permitted`, or `path_not_permitted`, where an entry is of a topic, or at a path, that the token does not permit. The
 * operations of a patch name places below its path, never beside it.
 */
export function authorizeUpdate(
  { entries }: { readonly entries: readonly Entry[] },
  { permittedTopics, permittedPaths }: PublishLimits,
): void {
  if (permittedTopics !== undefined) {
    authorizeTopics(
      entries.flatMap(({ topics }) => topics),
      permittedTopics,
    );
  }
  if (permittedPaths !== undefined) {
    authorizePaths(
      entries.map(({ dst_path }) => parseDocPath(dst_path)),
      permittedPaths,
    );
  }
}

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

/**
 * The data update of a `publish` call on a socket: whatever is published on a data topic is one, with the same rules as
 * `POST /data/config` (design D28). Each topic of the call must be one that the entries are published on, since a
 * subscriber of another topic could do nothing with it. Throws `request_invalid`.
 */
export function socketUpdate(topics: readonly string[], dataText: string): DataUpdate {
  const update = parseBody(dataUpdate, parseKeepingData(dataText));
  checkUpdate(update); // before anything is made of its topics
  const covered = new Set(expandTopics(update.entries.flatMap((entry) => entry.topics)));
  const others = topics.filter((topic) => !covered.has(topic));
  if (others.length === 0) return update;
  const named = others.slice(0, MAX_PROBLEMS).map((topic) => JSON.stringify(topic.slice(0, 200)));
  const msg = `no entry is published on ${named.join(', ')}${others.length > named.length ? ', ...' : ''}`;
  throw invalidRequest([{ loc: ['topics'], msg, type: 'value_error' }]);
}
