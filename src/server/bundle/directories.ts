/**
 * Directories of a policy repository. In normal form: segments joined by `/`, none empty or `.`; the root is `.`. `..` is
 * left standing: no directory has that name, so such a path is simply unknown.
 */

/** The normal form of one path as people write it: `/a/`, `./a` and `a` are the same. */
export function normalDirectory(text: string): string {
  const segments = text.split('/').filter((segment) => segment !== '' && segment !== '.');
  return segments.length === 0 ? '.' : segments.join('/');
}

/** The directories of a request: normal, sorted, without those that lie below another one. None given: the root. */
export function requestedDirectories(texts: readonly string[]): string[] {
  const all = new Set(texts.map(normalDirectory));
  if (all.size === 0 || all.has('.')) return ['.'];
  return [...all].filter((directory) => !properAncestors(directory).some((above) => all.has(above))).sort(comparePaths);
}

/** The directory that a file lies in. */
export function directoryOf(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash < 0 ? '.' : path.slice(0, slash);
}

/** The last segment of a path. */
export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The directories above a directory, nearest first, the root last. The root has none. */
export function properAncestors(directory: string): string[] {
  const above: string[] = [];
  for (let at = directory; at !== '.'; ) {
    at = directoryOf(at);
    above.push(at);
  }
  return above;
}

/** True when a path is a directory, or lies at any depth in it. */
export function isWithin(path: string, directory: string): boolean {
  return directory === '.' || path === directory || path.startsWith(`${directory}/`);
}

/** Directories with all their ancestors, sorted: what a change of files in them is announced for. */
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

/** Byte order of the UTF-8 texts: the alphabet of design D38, and the order in which git lists a tree. */
export function comparePaths(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
