import type { TreeFile } from '../source/git-objects.js';
import { directoryOf, withAncestors } from './directories.js';
import { type FileKind, fileKind } from './files.js';
import { compileIgnore } from './ignore.js';
import { loadOrder } from './load-order.js';
import { explicitOrder } from './manifest.js';
import { replacedData } from './replaced-data.js';

/** A file that bundles carry. */
export interface BundleFile {
  path: string;
  kind: FileKind;
  /** Object id of the content. */
  blob: string;
}

/** What bundles need to know of one commit. */
export interface Snapshot {
  hash: string;
  /** In load order: as manifests list them, then the others as {@link loadOrder} has them. */
  files: readonly BundleFile[];
  /** Every directory of the commit, the root included. */
  directories: ReadonlySet<string>;
  /** Manifests that take part in the order, with the object ids of their texts. */
  manifests: ReadonlyMap<string, string>;
  /** Lines of manifests that were skipped, and data files that another one replaces: for people. */
  warnings: readonly string[];
}

/** Settings that say what is in a bundle. */
export interface SnapshotOptions {
  /** SYNC_POLICY_REPO_POLICY_EXTENSIONS. */
  policyExtensions: readonly string[];
  /** SYNC_POLICY_REPO_MANIFEST_PATH. */
  manifestPath: string;
  /** SYNC_BUNDLE_IGNORE. */
  ignore: readonly string[];
}

/** Every directory of a tree, the root included. */
export function treeDirectories(tree: readonly TreeFile[]): Set<string> {
  return new Set(['.', ...withAncestors(new Set(tree.map((file) => directoryOf(file.path))))]);
}

/**
 * The snapshot of a commit from its files (in byte order of their paths) and the texts of its manifests. Pure. A file that
 * no manifest lists is never left out: manifests give order only (protocol-facts 5.5).
 */
export function takeSnapshot(
  commit: { hash: string; tree: readonly TreeFile[]; manifestText(path: string): string | undefined },
  options: SnapshotOptions,
): Snapshot {
  const ignore = compileIgnore(options.ignore);
  const directories = treeDirectories(commit.tree);
  const blobs = new Map(commit.tree.map((file) => [file.path, file.blob]));
  const order = explicitOrder({
    manifestPath: options.manifestPath,
    ignore,
    hasFile: (path) => blobs.has(path),
    hasDirectory: (directory) => directories.has(directory),
    text: commit.manifestText,
  });
  const files: BundleFile[] = [];
  // A set keeps the first place of each path, so listed files stay where the manifests have them.
  for (const path of new Set([...order.paths, ...loadOrder(blobs.keys())])) {
    const kind = fileKind(path, options.policyExtensions);
    const blob = blobs.get(path);
    if (kind !== undefined && blob !== undefined && !ignore(path)) files.push({ path, kind, blob });
  }
  return {
    hash: commit.hash,
    files,
    directories,
    manifests: new Map(order.manifests.map((path) => [path, blobs.get(path) ?? ''])),
    warnings: [...order.warnings, ...replacedData(files)],
  };
}
