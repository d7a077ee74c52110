import { isUtf8 } from 'node:buffer';
import { SyncError } from '../../lib/errors.js';
import type { GitObjects } from '../source/git-objects.js';
import { nameOf } from './directories.js';
import { MANIFEST_NAME } from './files.js';
import { rootManifest } from './manifest.js';
import { type Snapshot, type SnapshotOptions, takeSnapshot, treeDirectories } from './snapshot.js';

/** Commits whose file lists are kept: the head, and the bases that clients come from. */
const KEPT_SNAPSHOTS = 16;

/** The commits of one repository as bundles see them; the last few are kept. */
export interface Snapshots {
  /** Throws `git_failed`, and `policy_commit_refused` when a manifest that takes part is not UTF-8. */
  get(commit: string): Promise<Snapshot>;
  /** True when the commit is one of those kept: then there is no need to ask git whether it exists. */
  isKept(commit: string): boolean;
}

/** Makes {@link Snapshots}. */
export function createSnapshots(options: SnapshotOptions, deps: { objects: GitObjects }): Snapshots {
  const kept = new Map<string, Promise<Snapshot>>();

  async function read(hash: string): Promise<Snapshot> {
    const tree = await deps.objects.files(hash);
    const directories = treeDirectories(tree);
    const root = rootManifest(options.manifestPath, (directory) => directories.has(directory));
    const manifests = new Map<string, string>();
    for (const { path, blob } of tree) if (path === root || nameOf(path) === MANIFEST_NAME) manifests.set(path, blob);
    const blobs = await deps.objects.blobs([...manifests.values()]);
    const manifestText = (path: string): string | undefined => {
      const bytes = blobs.get(manifests.get(path) ?? '');
      if (bytes === undefined) return undefined;
      if (!isUtf8(bytes)) throw new SyncError('policy_commit_refused', `commit ${hash}: ${path} is not UTF-8`);
      return new TextDecoder().decode(bytes); // without a byte order mark
    };
    return takeSnapshot({ hash, tree, manifestText }, options);
  }

  async function readAndKeep(hash: string): Promise<Snapshot> {
    try {
      return await read(hash);
    } catch (error) {
      kept.delete(hash); // the next caller reads again
      throw error;
    }
  }

  return {
    isKept: (hash) => kept.has(hash),
    get: (hash) => {
      const snapshot = kept.get(hash) ?? readAndKeep(hash);
      // Last used stands last, so the first is the one to drop.
      kept.delete(hash);
      kept.set(hash, snapshot);
      const [oldest] = kept.keys();
      if (kept.size > KEPT_SNAPSHOTS && oldest !== undefined) kept.delete(oldest);
      return snapshot;
    },
  };
}
