import type { FileDiff, PolicyFile } from '../wire/fleet-views.js';

/** Policy files and differences, arranged for people. */

export interface Directory {
  /** Empty: the root. */
  readonly path: string;
  readonly files: readonly PolicyFile[];
}

/** Files by directory, directories and files in the order in which they load. */
export function byDirectory(files: readonly PolicyFile[]): Directory[] {
  const directories = new Map<string, PolicyFile[]>();
  for (const file of [...files].sort((one, other) => one.order - other.order)) {
    const path = file.path.slice(0, Math.max(0, file.path.lastIndexOf('/')));
    const list = directories.get(path);
    if (list === undefined) directories.set(path, [file]);
    else list.push(file);
  }
  return [...directories].map(([path, list]) => ({ path, files: list }));
}

/** The name without its directory. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/**
 * `@@ -31,8 +31,15 @@ allow if {` as people read it: `31,8 to 31,15 · allow if {`; no lines on one
 * side: the file. Other headers stay.
 */
export function hunkTitle(header: string): string {
  const [, from, to, context = ''] = /^@@ -(\d+(?:,\d+)?) \+(\d+(?:,\d+)?) @@ ?(.*)$/s.exec(header) ?? [];
  if (from === undefined || to === undefined) return header;
  if (from === '0,0') return 'new file';
  if (to === '0,0') return 'file removed';
  return context === '' ? `${from} to ${to}` : `${from} to ${to} \u00b7 ${context}`;
}

/**
 * Which files to show in full at first: those that fit into `most` lines, in their order; large
 * ones wait to be asked for.
 */
export function openFiles(files: readonly FileDiff[], most: number): Set<string> {
  const open = new Set<string>();
  let left = most;
  for (const file of files) {
    const lines = file.hunks.reduce((sum, hunk) => sum + hunk.lines.length + 1, 0);
    if (lines > left) continue;
    left -= lines;
    open.add(file.path);
  }
  return open;
}
