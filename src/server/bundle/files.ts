import { nameOf } from './directories.js';

/** What a file is to a bundle. */
export type FileKind = 'policy' | 'data';

/** The file that orders a folder, unless SYNC_POLICY_REPO_MANIFEST_PATH names another one for the root. */
export const MANIFEST_NAME = '.manifest';

/** Spec, policy bundle rule 2: every file matching `.*data.json`. */
const DATA_FILE = /data\.json$/;

/**
 * The kind of a file by its name: a data file, a policy module (one of the extensions, with a name before it), or
 * undefined for what bundles leave out.
 */
export function fileKind(path: string, policyExtensions: readonly string[]): FileKind | undefined {
  const name = nameOf(path);
  if (DATA_FILE.test(name)) return 'data';
  const isPolicy = policyExtensions.some((ending) => name.length > ending.length && name.endsWith(ending));
  return isPolicy ? 'policy' : undefined;
}
