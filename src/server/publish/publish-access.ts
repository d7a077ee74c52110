import { authorizePaths, authorizeTopics } from '../../auth/authorize.js';
import { type Authenticator, expiresAtMs, type Permitted } from '../../auth/caller.js';
import { invalidRequest, parseBody } from '../../http/json-body.js';
import { ANY_PEER, type Peer } from '../../pubsub/peer.js';
import { type DataSourceEntry, type DataUpdate, dataUpdate } from '../../wire/data.js';
import { parseDocPath } from '../../wire/doc-path.js';
import { parseKeepingData } from '../../wire/inline-data.js';
import { MAX_PROBLEMS } from '../../wire/lists.js';
import { expandTopics } from '../../wire/topics.js';
import { checkUpdate } from './update-rules.js';

type Entry = Pick<DataSourceEntry, 'topics' | 'dst_path'>;

/**
 * Throws `topic_not_permitted` or `path_not_permitted` if the token does not permit a topic or the
 * path of an entry. The operations of a patch cannot reach outside its path.
 */
export function authorizeUpdate(
  { entries }: { readonly entries: readonly Entry[] },
  { permittedTopics, permittedPaths }: Permitted,
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
 * Admits a peer to the socket (design D36): any valid token may subscribe, within its
 * `permitted_topics`; only `datasource` peers may publish. With authentication off, everything is
 * allowed. Rejects with `unauthorized`.
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
 * Parses the data update of a `publish` call on a socket, with the same rules as
 * `POST /data/config` (design D28). Each topic of the call must be one that the entries are
 * published on: subscribers of another topic could not use the update. Throws `request_invalid`.
 */
export function socketUpdate(topics: readonly string[], dataText: string): DataUpdate {
  const update = parseBody(dataUpdate, parseKeepingData(dataText));
  checkUpdate(update); // first: it bounds the topics
  const covered = new Set(expandTopics(update.entries.flatMap((entry) => entry.topics)));
  const others = topics.filter((topic) => !covered.has(topic));
  if (others.length === 0) return update;
  const named = others.slice(0, MAX_PROBLEMS).map((topic) => JSON.stringify(topic.slice(0, 200)));
  const msg = `no entry is published on ${named.join(', ')}${others.length > named.length ? ', ...' : ''}`;
  throw invalidRequest([{ loc: ['topics'], msg, type: 'value_error' }]);
}
