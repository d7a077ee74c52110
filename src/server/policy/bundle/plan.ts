import { directoryOf, isWithin, properAncestors } from './directories.js';
import type { BundleFile, Snapshot } from './snapshot.js';

/** The list of a bundle's files, made before their contents are read. */
export interface BundlePlan {
  hash: string;
  /** The base of a delta; null for a complete bundle. */
  oldHash: string | null;
  /** In load order. */
  files: readonly BundleFile[];
  /** Null for a complete bundle, and if nothing is deleted. Data by folder, modules by path. */
  deleted: { data: readonly string[]; policies: readonly string[] } | null;
}

/** Plans the complete bundle of a commit for directories. */
export function planComplete(head: Snapshot, directories: readonly string[]): BundlePlan {
  return { hash: head.hash, oldHash: null, files: filesIn(head, directories), deleted: null };
}

/**
 * Plans the delta between two commits for directories. Returns undefined if only a complete bundle
 * leads to the right state: a manifest that applies has changed (design D9), or a client that
 * writes data files one by one and then deletes folders (opal-protocol P5.9) would reach another
 * state than with a complete bundle.
 *
 * Compares the files of the directories in both commits. So a rename is an addition and a deletion,
 * of which only the half inside the directories counts, and a file that became a link is deleted.
 */
export function planDelta(base: Snapshot, head: Snapshot, directories: readonly string[]): BundlePlan | undefined {
  if (!sameEntries(base.manifests, head.manifests)) return undefined;
  const before = filesIn(base, directories);
  const after = filesIn(head, directories);
  const data = planData(before, after);
  if (data === undefined) return undefined;

  const known = blobsByPath(before, 'policy');
  const present = blobsByPath(after, 'policy');
  const files = after.filter((file) =>
    file.kind === 'data' ? data.carried(directoryOf(file.path)) : known.get(file.path) !== file.blob,
  );
  // In reverse load order, so that a module is deleted before its imports.
  const policies = [...known.keys()].filter((path) => !present.has(path)).reverse();
  const deleted = data.deleted.length + policies.length === 0 ? null : { data: data.deleted, policies };
  return { hash: head.hash, oldHash: base.hash, files, deleted };
}

/**
 * Plans the data part of a delta: the folders that it contains and deletes; undefined if no delta
 * reaches the state.
 */
function planData(
  before: readonly BundleFile[],
  after: readonly BundleFile[],
): { carried: (folder: string) => boolean; deleted: string[] } | undefined {
  const foldersBefore = dataFolders(before);
  const foldersAfter = dataFolders(after);
  const deleted = [...foldersBefore.keys()].filter((folder) => !foldersAfter.has(folder));
  const changed = [...foldersAfter].filter(([folder, files]) => foldersBefore.get(folder) !== files).map(([at]) => at);
  // A write replaces everything below it, so the folders below are written again.
  const rewritten = new Set([...deleted, ...changed]);
  const carried = (folder: string): boolean =>
    rewritten.has(folder) || properAncestors(folder).some((above) => rewritten.has(above));
  if (rewritten.size === 0) return { carried, deleted };

  const wanted = new DataWrites();
  const reached = new DataWrites();
  for (const file of before) if (file.kind === 'data') reached.put(directoryOf(file.path), file.blob);
  for (const { path, kind, blob } of after) {
    if (kind !== 'data') continue;
    const folder = directoryOf(path);
    wanted.put(folder, blob);
    if (carried(folder)) reached.put(folder, blob);
  }
  for (const folder of deleted) reached.remove(folder);
  return reached.equals(wanted) ? { carried, deleted } : undefined;
}

/**
 * Maps each folder with data files to its files and contents, in load order, as one comparable
 * text.
 */
function dataFolders(files: readonly BundleFile[]): Map<string, string> {
  const folders = new Map<string, string>();
  for (const { path, kind, blob } of files) {
    if (kind !== 'data') continue;
    const folder = directoryOf(path);
    folders.set(folder, `${folders.get(folder) ?? ''}${path}\0${blob}\0`);
  }
  return folders;
}

function filesIn(snapshot: Snapshot, directories: readonly string[]): readonly BundleFile[] {
  if (directories.includes('.')) return snapshot.files;
  return snapshot.files.filter((file) => directories.some((directory) => isWithin(file.path, directory)));
}

function blobsByPath(files: readonly BundleFile[], kind: BundleFile['kind']): Map<string, string> {
  return new Map(files.filter((file) => file.kind === kind).map((file) => [file.path, file.blob]));
}

function sameEntries(a: ReadonlyMap<string, string>, b: ReadonlyMap<string, string>): boolean {
  if (a.size !== b.size) return false;
  for (const [key, value] of a) if (b.get(key) !== value) return false;
  return true;
}

/** Marks a subtree that a deletion removed from a document above it. */
const HOLE = Symbol('hole');

/**
 * The result of applying data files one by one, as the file content that is visible at each folder.
 * A write replaces everything at and below its folder; a deletion removes it. Documents with equal
 * writes are equal, whatever the files contain. (Empty objects that a deletion leaves above it are
 * ignored.)
 */
export class DataWrites {
  readonly #visible = new Map<string, string | typeof HOLE>();

  /** Writes the content with this object id at a folder. */
  put(folder: string, blob: string): void {
    this.#clear(folder);
    this.#visible.set(folder, blob);
  }

  /** Removes a folder, including the content that a document above has there. */
  remove(folder: string): void {
    this.#clear(folder);
    if (properAncestors(folder).some((above) => this.#visible.has(above))) this.#visible.set(folder, HOLE);
  }

  equals(other: DataWrites): boolean {
    if (this.#visible.size !== other.#visible.size) return false;
    for (const [folder, blob] of this.#visible) if (other.#visible.get(folder) !== blob) return false;
    return true;
  }

  #clear(folder: string): void {
    for (const known of this.#visible.keys()) if (isWithin(known, folder)) this.#visible.delete(known);
  }
}
