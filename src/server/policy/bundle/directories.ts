/**
 * Directories of a policy repository in normal form: segments joined by `/`, none empty or `.`; the
 * root is `.`. `..` is kept: no directory has that name, so such a path is unknown.
 */

/** Returns the normal form of a path: `/a/`, `./a` and `a` are the same. */
export function normalDirectory(text: string): string {
  const segments = text.split('/').filter((segment) => segment !== '' && segment !== '.');
  return segments.length === 0 ? '.' : segments.join('/');
}

/**
 * Returns the directories of a request: normalized, sorted, without those below another one. None
 * given: the root.
 */
export function requestedDirectories(texts: readonly string[]): string[] {
  const all = new Set(texts.map(normalDirectory));
  if (all.size === 0 || all.has('.')) return ['.'];
  return [...all].filter((directory) => !properAncestors(directory).some((above) => all.has(above))).sort(comparePaths);
}

/** Returns the directory of a file. */
export function directoryOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash < 0 ? '.' : path.slice(0, slash);
}

/** Returns the last segment of a path. */
export function lastSegment(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Returns the directories above a directory, nearest first, the root last. The root has none. */
export function properAncestors(directory: string): string[] {
  const above: string[] = [];
  for (let at = directory; at !== '.'; ) {
    at = directoryOf(at);
    above.push(at);
  }
  return above;
}

/** Whether a path is a directory or lies below it at any depth. */
export function isWithin(path: string, directory: string): boolean {
  return directory === '.' || path === directory || path.startsWith(`${directory}/`);
}

/**
 * Adds all ancestors to directories and sorts them: a change of files is announced for each of
 * these.
 */
export function withAncestors(directories: Iterable<string>): string[] {
  const all = new Set<string>();
  for (const directory of directories) {
    for (let at = directory; !all.has(at); at = directoryOf(at)) {
      all.add(at);
      if (at === '.') break;
    }
  }
  return [...all].sort(comparePaths);
}

/** Compares in byte order of UTF-8: the order of design D38, and that in which git lists a tree. */
export function comparePaths(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
