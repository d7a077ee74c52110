import { directoryOf, normalDirectory } from './directories.js';
import type { Ignore } from './ignore.js';
import { isOpaManifest } from './opa-manifest.js';

/**
 * The file that orders a folder, unless SYNC_POLICY_REPO_MANIFEST_PATH sets another one for the
 * root.
 */
export const MANIFEST_NAME = '.manifest';

/** A folder: its files, and its subfolders by name. */
interface Folder {
  readonly files: string[];
  readonly folders: Map<string, Folder>;
}

/**
 * Returns paths in OPAL's load order without a manifest: the files of a folder before its
 * subfolders, both in the given order (git lists a tree in byte order of the paths). So a document
 * is written before those below it and never replaces them.
 */
export function loadOrder(paths: Iterable<string>): string[] {
  const root: Folder = { files: [], folders: new Map() };
  for (const path of paths) {
    let at = root;
    let start = 0;
    for (let end = path.indexOf('/'); end !== -1; end = path.indexOf('/', start)) {
      const name = path.slice(start, end);
      let folder = at.folders.get(name);
      if (folder === undefined) {
        folder = { files: [], folders: new Map() };
        at.folders.set(name, folder);
      }
      at = folder;
      start = end + 1;
    }
    at.files.push(path);
  }
  const ordered: string[] = [];
  const left = [root];
  for (let at = left.pop(); at !== undefined; at = left.pop()) {
    for (const file of at.files) ordered.push(file);
    for (const folder of [...at.folders.values()].reverse()) left.push(folder);
  }
  return ordered;
}

/** The input of {@link explicitOrder}. */
export interface ManifestInput {
  /**
   * SYNC_POLICY_REPO_MANIFEST_PATH: a file, a folder that has a `.manifest`, or empty for the root.
   */
  manifestPath: string;
  ignore: Ignore;
  hasFile(path: string): boolean;
  hasDirectory(directory: string): boolean;
  /** Text of a file that may be a manifest; undefined if there is no such file. */
  text(path: string): string | undefined;
}

/** What is to know of a file of a commit that is served all the same. */
export interface FileWarning {
  readonly kind: 'manifest_line' | 'data_replaced' | 'yaml_data';
  readonly file: string;
  /** 1 for the first; undefined: the whole file. */
  readonly line?: number;
  /** What is to know, as the end of a sentence that begins with the file. */
  readonly reason: string;
  /** The whole sentence. */
  readonly text: string;
}

/** The order that manifests define. */
export interface ExplicitOrder {
  /** Listed files, in load order, each once. */
  paths: string[];
  /** Manifests that apply, in reading order. */
  manifests: string[];
  /** Lines that were skipped, for the log. */
  warnings: FileWarning[];
}

/** Returns the file that SYNC_POLICY_REPO_MANIFEST_PATH refers to. */
export function rootManifest(manifestPath: string, hasDirectory: (directory: string) => boolean): string {
  const path = normalDirectory(manifestPath);
  return path === '.' || hasDirectory(path) ? join(path, MANIFEST_NAME) : path;
}

/**
 * Reads manifests, starting with the root (specification bundle-rule.manifest-form; opal-protocol
 * P5.5). Each line is one literal path, relative to the manifest. A folder stands for the list of
 * its own `.manifest`. Skips with a warning: absolute paths, paths outside the manifest's folder,
 * missing, ignored and repeated ones. Manifests define only order: unlisted files follow later. The
 * manifest of an OPA bundle, a JSON object with revision, roots and versions of Rego, defines none.
 */
export function explicitOrder(input: ManifestInput): ExplicitOrder {
  const order: ExplicitOrder = { paths: [], manifests: [], warnings: [] };
  const visited = new Set<string>();

  const read = (manifest: string): void => {
    const text = input.text(manifest);
    if (text === undefined || isOpaManifest(text)) return;
    order.manifests.push(manifest);
    const folder = directoryOf(manifest);
    for (const [index, line] of text.split(/\r\n|\n|\r/).entries()) {
      if (line === '') continue;
      const entry = resolveEntry(folder, line);
      const skip = (why: string): void => {
        const reason = `${JSON.stringify(line)} ${why}`;
        const text = `${manifest}: ${reason}`;
        order.warnings.push({ kind: 'manifest_line', file: manifest, line: index + 1, reason, text });
      };
      if (typeof entry === 'object') skip(entry.problem);
      else if (input.ignore(entry)) skip('is ignored by SYNC_BUNDLE_IGNORE');
      else if (visited.has(entry)) skip('is listed already');
      else if (input.hasFile(entry)) {
        visited.add(entry);
        order.paths.push(entry);
      } else if (input.hasDirectory(entry)) {
        visited.add(entry);
        read(join(entry, MANIFEST_NAME));
      } else skip('does not exist');
    }
  };

  read(rootManifest(input.manifestPath, input.hasDirectory));
  return order;
}

/**
 * Resolves a line to a path from the repository root. Always strictly inside the folder, so that
 * there are no cycles.
 */
function resolveEntry(folder: string, line: string): string | { problem: string } {
  if (line.startsWith('/')) return { problem: 'is absolute' };
  const segments: string[] = [];
  for (const segment of line.split('/')) {
    if (segment === '' || segment === '.') continue;
    if (segment !== '..') segments.push(segment);
    else if (segments.pop() === undefined) return { problem: 'lies outside its folder' };
  }
  return segments.length === 0 ? { problem: 'is its own folder' } : join(folder, segments.join('/'));
}

function join(directory: string, name: string): string {
  return directory === '.' ? name : `${directory}/${name}`;
}
