import { directoryOf, properAncestors } from './directories.js';

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
