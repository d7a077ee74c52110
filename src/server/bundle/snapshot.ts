import { isUtf8 } from 'node:buffer';
import { SyncError } from '../../lib/errors.js';
import type { GitObjects, TreeFile } from '../source/git-objects.js';
import { directoryOf, nameOf, properAncestors, withAncestors } from './directories.js';
import { compileIgnore } from './ignore.js';
import { explicitOrder, loadOrder, MANIFEST_NAME, rootManifest } from './load-order.js';

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
 * no manifest lists is never left out: manifests give order only (opal-protocol P5.5).
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

/** What a file is to a bundle. */
export type FileKind = 'policy' | 'data';

/** Every file that matches `.*data.json` (specification bundle-rule.data-files). */
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

/**
 * Warnings, each with two files: a data file that another one replaces, because that loads later at the same folder or at
 * one above. The second comes of a manifest alone: without one a folder's own files load before its subfolders.
 */
export function replacedData(files: readonly { readonly kind: string; readonly path: string }[]): string[] {
  const data = files.filter(({ kind }) => kind === 'data').map(({ path }) => ({ path, folder: directoryOf(path) }));
  const last = new Map(data.map(({ folder }, index) => [folder, index]));
  const next = new Map<string, number>();
  const warnings: string[] = [];
  for (let index = data.length - 1; index >= 0; index--) {
    const { path, folder } = data[index] as (typeof data)[number];
    const same = data[next.get(folder) ?? -1];
    next.set(folder, index);
    if (same !== undefined) {
      warnings.push(`${path} is replaced by ${same.path}, which is loaded later at the same path`);
      continue;
    }
    const above = properAncestors(folder).find((one) => (last.get(one) ?? -1) > index);
    const by = above === undefined ? undefined : data[last.get(above) ?? -1];
    if (by === undefined) continue;
    warnings.push(
      `${path} is replaced by ${by.path}, which the manifest loads later at a path above: list ${by.path} before it`,
    );
  }
  return warnings.reverse();
}

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
