/** A folder on the way: its files, and the folders in it by name. */
interface Folder {
  readonly files: string[];
  readonly folders: Map<string, Folder>;
}

/**
 * Paths in the order in which they load without a manifest, which is OPAL's: a folder's own files before its subfolders, each
 * in the order given. That is the byte order of the paths, as git lists a tree. So a document is written before
 * those that lie below it, and never replaces them.
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
