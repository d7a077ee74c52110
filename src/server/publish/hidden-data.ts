import type { Places } from '../../lib/net/places.js';
import { docPathText, parseDocPath } from '../../wire/doc-path.js';

/** Most folders that are named. */
const NAMED = 100;

/** What is published at a place. */
interface Published {
  readonly dst_path: string;
  readonly save_method: string;
  readonly only_removes?: boolean | undefined;
}

/**
 * Folders of the served commit with data that a publication stands over (design D6): it replaces or
 * deletes what is there, in later commits, too. Of a folder above a deletion that is what the
 * commit has at its path, if anything. At most 100, in order. `places`: undefined where the commit
 * is not known yet.
 */
export function hiddenData(published: readonly Published[], places: Places | undefined): string[] {
  const found = new Set<string>();
  for (const { dst_path, save_method: method, only_removes: spares } of places === undefined ? [] : published) {
    if (method === 'PATCH' || spares === true) continue;
    const path = parseDocPath(dst_path);
    if (method === 'DELETE') for (const place of places?.above(path) ?? []) found.add(docPathText(place));
    for (const place of places?.below(path) ?? []) {
      if (found.size >= NAMED) break;
      found.add(docPathText(place));
    }
  }
  return [...found].sort().slice(0, NAMED);
}
