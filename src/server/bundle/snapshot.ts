import { Places } from '../../lib/places.js';
import { lineNotUtf8 } from '../../lib/text-lines.js';
import { CommitRefused } from '../source/commit-refused.js';
import type { GitObjects, TreeFile } from '../source/git-objects.js';
import { directoryOf, nameOf, properAncestors, withAncestors } from './directories.js';
import { compileIgnore } from './ignore.js';
import { explicitOrder, type FileWarning, loadOrder, MANIFEST_NAME, rootManifest } from './load-order.js';

/** A file of a bundle. */
export interface BundleFile {
  path: string;
  kind: FileKind;
  /** Object id of the content. */
  blob: string;
}

/** The files of one commit, as bundles need them. */
export interface Snapshot {
  hash: string;
  /** In load order: first those that manifests list, then the others in {@link loadOrder}. */
  files: readonly BundleFile[];
  /** Number of {@link files} that manifests list; they come first. */
  listed: number;
  /** Number of all files of the commit, also of those that bundles leave out. */
  total: number;
  /** Every directory of the commit, the root included. */
  directories: ReadonlySet<string>;
  /** Manifests that apply, with the object ids of their texts. */
  manifests: ReadonlyMap<string, string>;
  /** Warnings: skipped lines of manifests, and data files that another one replaces. */
  warnings: readonly FileWarning[];
}

export interface SnapshotOptions {
  /** SYNC_POLICY_REPO_POLICY_EXTENSIONS. */
  policyExtensions: readonly string[];
  /** SYNC_POLICY_REPO_MANIFEST_PATH. */
  manifestPath: string;
  /** SYNC_BUNDLE_IGNORE. */
  ignore: readonly string[];
}

/** Returns every directory of a tree, including the root. */
export function treeDirectories(tree: readonly TreeFile[]): Set<string> {
  return new Set(['.', ...withAncestors(new Set(tree.map((file) => directoryOf(file.path))))]);
}

/**
 * Makes the snapshot of a commit from its files (in byte order of their paths) and the texts of its manifests. Pure. Never leaves
 * out a file that no manifest lists: manifests define only order (opal-protocol P5.5).
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
  const listed = new Set(order.paths);
  // A set keeps the first position of each path, so listed files stay in the order of the manifests.
  for (const path of new Set([...order.paths, ...loadOrder(blobs.keys())])) {
    const kind = fileKind(path, options.policyExtensions);
    const blob = blobs.get(path);
    if (kind !== undefined && blob !== undefined && !ignore(path)) files.push({ path, kind, blob });
  }
  return {
    hash: commit.hash,
    files,
    listed: files.filter(({ path }) => listed.has(path)).length,
    total: commit.tree.length,
    directories,
    manifests: new Map(order.manifests.map((path) => [path, blobs.get(path) ?? ''])),
    warnings: [...order.warnings, ...replacedData(files)],
  };
}

export type FileKind = 'policy' | 'data';

/** Every file that matches `.*data.json` (specification bundle-rule.data-files). */
const DATA_FILE = /data\.json$/;

/**
 * Returns the kind of a file by its name: a data file, a policy module (one of the extensions, with a name before it), or
 * undefined for files that bundles leave out.
 */
export function fileKind(path: string, policyExtensions: readonly string[]): FileKind | undefined {
  const name = nameOf(path);
  if (DATA_FILE.test(name)) return 'data';
  const isPolicy = policyExtensions.some((ending) => name.length > ending.length && name.endsWith(ending));
  return isPolicy ? 'policy' : undefined;
}

/**
 * Returns warnings about data files that another one replaces, because that loads later at the same folder or at one above. Only
 * a manifest causes the second: without one, a folder's own files load before its subfolders.
 */
export function replacedData(files: readonly { readonly kind: string; readonly path: string }[]): FileWarning[] {
  const data = files.filter(({ kind }) => kind === 'data').map(({ path }) => ({ path, folder: directoryOf(path) }));
  const last = new Map(data.map(({ folder }, index) => [folder, index]));
  const next = new Map<string, number>();
  const warnings: FileWarning[] = [];
  const warn = (file: string, reason: string): void =>
    void warnings.push({ kind: 'data_replaced', file, reason, text: `${file} ${reason}` });
  for (let index = data.length - 1; index >= 0; index--) {
    const { path, folder } = data[index] as (typeof data)[number];
    const same = data[next.get(folder) ?? -1];
    next.set(folder, index);
    if (same !== undefined) {
      warn(path, `is replaced by ${same.path}, which is loaded later at the same path`);
      continue;
    }
    const above = properAncestors(folder).find((one) => (last.get(one) ?? -1) > index);
    const by = above === undefined ? undefined : data[last.get(above) ?? -1];
    if (by === undefined) continue;
    warn(path, `is replaced by ${by.path}, which the manifest loads later at a path above: list ${by.path} before it`);
  }
  return warnings.reverse();
}

/** Number of cached commits: the head, and the bases of deltas. */
const KEPT_SNAPSHOTS = 16;

/** Snapshots of the commits of one repository; the last few are cached. */
export interface Snapshots {
  /** Rejects with `git_failed`, or `policy_commit_refused` if a manifest that applies is not UTF-8. */
  get(commit: string): Promise<Snapshot>;
  /** Whether the commit is cached, so that git need not check that it exists. */
  isKept(commit: string): boolean;
  /** The folders with data of a commit, as places of documents; undefined unless it is cached. */
  dataPlaces(commit: string): Places | undefined;
}

/** Creates {@link Snapshots}. */
export function createSnapshots(
  options: SnapshotOptions,
  deps: { objects: GitObjects /** Commits to cache. */; keep?: number },
): Snapshots {
  const { keep = KEPT_SNAPSHOTS } = deps;
  const kept = new Map<string, Promise<Snapshot>>();
  const places = new Map<string, Places>();

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
      const line = lineNotUtf8(bytes);
      if (line !== undefined) throw new CommitRefused(hash, { file: path, line }, 'is not UTF-8');
      return new TextDecoder().decode(bytes); // without a byte order mark
    };
    return takeSnapshot({ hash, tree, manifestText }, options);
  }

  async function readAndKeep(hash: string): Promise<Snapshot> {
    try {
      const snapshot = await read(hash);
      if (kept.has(hash)) places.set(hash, placesOf(snapshot));
      return snapshot;
    } catch (error) {
      kept.delete(hash); // the next caller reads again
      throw error;
    }
  }

  return {
    isKept: (hash) => kept.has(hash),
    dataPlaces: (hash) => places.get(hash),
    get: (hash) => {
      const snapshot = kept.get(hash) ?? readAndKeep(hash);
      // Least recently used first.
      kept.delete(hash);
      kept.set(hash, snapshot);
      const [oldest] = kept.keys();
      if (kept.size > keep && oldest !== undefined) {
        kept.delete(oldest);
        places.delete(oldest);
      }
      return snapshot;
    },
  };
}

function placesOf({ files }: Snapshot): Places {
  const folders = new Set(files.filter(({ kind }) => kind === 'data').map(({ path }) => directoryOf(path)));
  return new Places([...folders].map((folder) => (folder === '.' ? [] : folder.split('/'))));
}
