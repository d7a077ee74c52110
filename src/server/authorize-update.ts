import { authorizePaths, authorizeTopics } from '../auth/authorize.js';
import type { Caller } from '../auth/caller.js';
import type { DataSourceEntry } from '../wire/data.js';
import { parseDocPath } from '../wire/doc-path.js';

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
