import { errorText } from '../../../lib/errors.js';
import { lineNotUtf8 } from '../../../lib/json/text-lines.js';
import { Places } from '../../../lib/net/places.js';
import { CommitRefused } from '../source/commit-refused.js';
import type { GitObjects, TreeFile } from '../source/git-objects.js';
import { directoryOf, lastSegment, properAncestors, withAncestors } from './directories.js';
import { compileIgnore } from './ignore.js';
import { explicitOrder, type FileWarning, loadOrder, MANIFEST_NAME, rootManifest } from './load-order.js';
import { declaredVersions, isOpaManifest, OPA_MANIFEST } from './opa-manifest.js';

/** A file of a bundle. */
export interface BundleFile {
  path: string;
  kind: FileKind;
  /** Object id of the content. */
  blob: string;
  /** Of a module: the version of Rego that the manifest of an OPA bundle declares for it. */
  declared?: number;
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
  /**
   * Warnings: skipped lines of manifests, data files that another one replaces, and data as YAML.
   */
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
 * Makes the snapshot of a commit from its files (in byte order of their paths) and the texts of its
 * manifests. Pure. Never leaves out a file that no manifest lists: manifests define only order
 * (opal-protocol P5.5).
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
  const declared = declaredBy(commit);
  const files: BundleFile[] = [];
  const listed = new Set(order.paths);
  // A set keeps the first position of each path, so listed files stay in the order of the
  // manifests.
  for (const path of new Set([...order.paths, ...loadOrder(blobs.keys())])) {
    const kind = fileKind(path, options.policyExtensions);
    const blob = blobs.get(path);
    if (kind === undefined || blob === undefined || ignore(path)) continue;
    const version = kind === 'policy' ? declared(path) : undefined;
    files.push({ path, kind, blob, ...(version !== undefined && { declared: version }) });
  }
  return {
    hash: commit.hash,
    files,
    listed: files.filter(({ path }) => listed.has(path)).length,
    total: commit.tree.length,
    directories,
    manifests: new Map(order.manifests.map((path) => [path, blobs.get(path) ?? ''])),
    warnings: [
      ...order.warnings,
      ...replacedData(files),
      ...yamlData([...blobs.keys()].filter((path) => !ignore(path))),
    ],
  };
}

/**
 * What the manifest of an OPA bundle says of versions of Rego; without one, nothing. Throws
 * `policy_commit_refused`.
 */
function declaredBy({
  hash,
  manifestText,
}: {
  hash: string;
  manifestText(path: string): string | undefined;
}): (path: string) => number | undefined {
  const text = manifestText(OPA_MANIFEST);
  if (text === undefined || !isOpaManifest(text)) return () => undefined;
  const within = <T>(work: () => T): T => {
    try {
      return work();
    } catch (cause) {
      throw new CommitRefused(hash, { file: OPA_MANIFEST }, errorText(cause), cause);
    }
  };
  const versionOf = within(() => declaredVersions(text));
  return (path) => within(() => versionOf(path));
}

export type FileKind = 'policy' | 'data';

/** Every file that matches `.*data.json` (specification bundle-rule.data-files). */
const DATA_FILE = /data\.json$/;

/**
 * Returns the kind of a file by its name: a data file, a policy module (one of the extensions, with
 * a name before it), or undefined for files that bundles leave out.
 */
export function fileKind(path: string, policyExtensions: readonly string[]): FileKind | undefined {
  const name = lastSegment(path);
  if (DATA_FILE.test(name)) return 'data';
  const isPolicy = policyExtensions.some((ending) => name.length > ending.length && name.endsWith(ending));
  return isPolicy ? 'policy' : undefined;
}

/** Returns warnings about data that OPA itself would load, and that bundles leave out. */
function yamlData(paths: readonly string[]): FileWarning[] {
  const reason = 'is left out: data files are JSON here';
  return paths
    .filter((path) => /^data\.ya?ml$/.test(lastSegment(path)))
    .map((file) => ({ kind: 'yaml_data', file, reason, text: `${file} ${reason}` }));
}

/**
 * Returns warnings about data files that another one replaces, because that loads later at the same
 * folder or at one above. Only a manifest causes the second: without one, a folder's own files load
 * before its subfolders.
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
  /**
   * Rejects with `git_failed`, or `policy_commit_refused` if a manifest that applies is not UTF-8.
   */
  get(commit: string): Promise<Snapshot>;
  /** Whether the commit is cached, so that git need not check that it exists. */
  isKept(commit: string): boolean;
  /** The folders with data of a commit, as places of documents; undefined unless it is cached. */
  dataPlaces(commit: string): Places | undefined;
  /** Whether a cached commit has data at, above or below a place of documents. */
  hasData(path: readonly string[]): boolean;
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
    for (const { path, blob } of tree)
      if (path === root || lastSegment(path) === MANIFEST_NAME) manifests.set(path, blob);
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
    hasData: (path) => [...places.values()].some((one) => one.overlap(path)),
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

/** Largest module that is read for a few lines of it. */
const MAX_MODULE_BYTES = 1024 * 1024;

/**
 * The text of a module that bundles of a commit have; undefined for every other file, and for a
 * commit that was not served of late. Rejects with `git_failed`.
 */
export async function moduleText(
  { snapshots, objects }: { readonly snapshots: Snapshots; readonly objects: Pick<GitObjects, 'blobs'> },
  commit: string,
  path: string,
): Promise<string | undefined> {
  if (!snapshots.isKept(commit)) return undefined;
  const { files } = await snapshots.get(commit);
  const file = files.find((one) => one.kind === 'policy' && one.path === path);
  if (file === undefined) return undefined;
  const bytes = (await objects.blobs([file.blob])).get(file.blob);
  return bytes === undefined || bytes.length > MAX_MODULE_BYTES ? undefined : bytes.toString('utf8');
}
