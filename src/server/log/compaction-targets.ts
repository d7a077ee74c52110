import { type FoldItem, partsOf, rowsOf } from './fold-item.js';
import type { LiveItems } from './live-items.js';
import { isSame } from './patch-targets.js';
import { comparePlace } from './place.js';
import type { RowRefs } from './row-refs.js';

/** What of the live items a document that was written anew stands for (design D16). */

/** The document of which this one is a part, written anew: patches up to its place are still to be worked into it. */
export function documentOf(live: LiveItems, written: FoldItem): FoldItem | undefined {
  return [...live.at(written.path)].find(
    ({ document, place, topics }) =>
      document !== undefined &&
      isSame(topics, written.topics) &&
      comparePlace(document.place, written.place) < 0 &&
      comparePlace(written.place, place) <= 0,
  );
}

/**
 * Makes room for a document that is read from a log whose older rows are gone in part: the patch at its place stands there
 * without its document, alone or worked into another one, and later ones may have joined what lies on the other side of it.
 */
export function splitAt(live: LiveItems, refs: RowRefs, { path, place }: FoldItem): void {
  for (const item of [...live.overlapping(path)]) {
    const { place: start } = item.document ?? item;
    if (comparePlace(start, place) > 0 || comparePlace(item.place, place) < 0) continue;
    const parts = partsOf(item).filter((part) => comparePlace(part.place, place) !== 0);
    for (const row of rowsOf(item)) refs.add(row);
    live.remove(item);
    for (const part of parts) live.insert(part, 'late');
    for (const row of rowsOf(item)) refs.drop(row);
  }
}
