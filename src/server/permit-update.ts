import type { Caller } from '../auth/caller.js';
import { permitPaths, permitTopics } from '../auth/permit.js';
import type { DataSourceEntry } from '../wire/data.js';
import { type DocPath, parseDocPath } from '../wire/doc-path.js';
import { patchParts } from './log/patch-rules.js';

/** What of a caller, or of a peer on the socket, limits what it may publish. */
export type PublishLimits = Pick<Caller, 'permittedTopics' | 'permittedPaths'>;

type Entry = Pick<DataSourceEntry, 'topics' | 'dst_path' | 'save_method' | 'data'>;

/** Throws `unauthorized`, or `path_not_permitted`, where an entry is of a topic, or at a path, that the token does not permit. */
export function permitUpdate(
  { entries }: { readonly entries: readonly Entry[] },
  { permittedTopics, permittedPaths }: PublishLimits,
): void {
  if (permittedTopics !== undefined) {
    permitTopics(
      entries.flatMap(({ topics }) => topics),
      permittedTopics,
    );
  }
  if (permittedPaths !== undefined) permitPaths(entries.flatMap(writtenPaths), permittedPaths);
}

/** Where an entry reads and writes: `dst_path`, and for a patch what its pointers name below it. */
function writtenPaths({ dst_path, save_method, data }: Entry): DocPath[] {
  const path = parseDocPath(dst_path);
  if (save_method !== 'PATCH') return [path];
  const pointers = (patchParts(data) ?? []).flatMap(({ op }) => ('from' in op ? [op.path, op.from] : [op.path]));
  return [path, ...pointers.map((pointer) => [...path, ...pointer])];
}
