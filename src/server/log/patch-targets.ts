import { JsonText } from '../../lib/json/json-text.js';
import type { FoldItem } from './fold-item.js';
import type { LiveItems } from './live-items.js';
import { isPlain, type PatchPart, partsLeft } from './patch-rules.js';
import { comparePlace, type Place } from './place.js';

/**
 * The live items that a patch is linked to or supersedes, instead of stacking on top (design D16).
 */

/**
 * The inline document that a patch can be linked to: it has the same topics, and nothing that
 * overlaps it was published between the two, except patches of the same document.
 */
export function documentUnder(live: LiveItems, patch: FoldItem): FoldItem | undefined {
  if (patch.parts === undefined || patch.expiresMs !== undefined) return undefined;
  const isBefore = (item: FoldItem, than: FoldItem): boolean => comparePlace(item.place, than.place) < 0;
  let found: FoldItem | undefined;
  for (const item of live.above(patch.path)) {
    if (item.document !== undefined || !isBefore(item, patch)) continue;
    if (found === undefined || isBefore(found, item)) found = item;
  }
  const fits =
    found !== undefined &&
    found.origin === 'update' &&
    found.expiresMs === undefined &&
    found.entry.save_method === 'PUT' &&
    found.entry.data instanceof JsonText &&
    isSame(patch.topics, found.topics) &&
    isSubset(patch.open, found.open);
  if (!fits || found === undefined) return undefined;
  for (const other of live.overlapping(found.path)) {
    if (other.document !== found && isBefore(found, other) && isBefore(other, patch)) return undefined;
  }
  return found;
}

/**
 * Stacked patches that a plain patch supersedes, wholly or in part, with their remaining
 * operations.
 */
export function supersededPatches(live: LiveItems, patch: FoldItem): Map<FoldItem, readonly PatchPart[]> {
  const found = new Map<FoldItem, readonly PatchPart[]>();
  const { parts } = patch;
  if (parts === undefined || patch.expiresMs !== undefined || !isPlain(parts)) return found;
  const candidates = [...live.at(patch.path)].filter(
    (old) =>
      old.origin === 'update' &&
      old.entry.save_method === 'PATCH' &&
      old.document === undefined &&
      isPlain(old.parts) &&
      isSubset(old.open, patch.topics),
  );
  if (candidates.length === 0) return found;
  // A patch that depends on the document, or shifts its lists, needs all patches before it.
  let barrier: Place = [0, 0];
  for (const other of live.readersOf(patch.path)) {
    if (other.document === undefined && comparePlace(other.place, barrier) > 0) barrier = other.place;
  }
  for (const old of candidates) {
    if (comparePlace(old.place, barrier) < 0) continue;
    const left = partsLeft(old.parts ?? [], parts);
    if (left.length < (old.parts ?? []).length) found.set(old, left);
  }
  return found;
}

/**
 * Whether two lists, each without repetitions, have the same members. Items that are live share
 * theirs.
 */
export function isSame<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && isSubset(a, b));
}

function isSubset<T>(a: readonly T[], b: readonly T[]): boolean {
  if (a === b) return true;
  const all = new Set(b);
  return a.every((item) => all.has(item));
}
