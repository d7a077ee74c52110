import type { GitObjects } from '../source/git-objects.js';
import type { Snapshots } from './snapshot.js';

/** Largest module that is read for a few lines of it. */
const MAX_BYTES = 1024 * 1024;

/**
 * Returns the text of a module that bundles of a commit have; undefined for every other file, and for a commit that was not served of
 * late. Rejects with `git_failed`.
 */
export type ModuleText = (commit: string, path: string) => Promise<string | undefined>;

/** Creates a {@link ModuleText}. */
export function createModuleText(deps: {
  readonly objects: Pick<GitObjects, 'blobs'>;
  readonly snapshots: Snapshots;
}): ModuleText {
  return async (commit, path) => {
    if (!deps.snapshots.isKept(commit)) return undefined;
    const { files } = await deps.snapshots.get(commit);
    const file = files.find((one) => one.kind === 'policy' && one.path === path);
    if (file === undefined) return undefined;
    const bytes = (await deps.objects.blobs([file.blob])).get(file.blob);
    return bytes === undefined || bytes.length > MAX_BYTES ? undefined : bytes.toString('utf8');
  };
}
