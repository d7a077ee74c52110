import { setImmediate as nextTurn } from 'node:timers/promises';

/**
 * Long work on lists, in turns of the event loop of about a millisecond, so that updates pass in
 * between.
 */

const AT_ONCE = 1000;

/** Calls `take` with each item, in order. */
export async function forEachInTurns<T>(items: readonly T[], take: (item: T) => void): Promise<void> {
  for (let from = 0; from < items.length; from += AT_ONCE) {
    if (from > 0) await nextTurn();
    for (let at = from; at < Math.min(from + AT_ONCE, items.length); at++) take(items[at] as T);
  }
}

/** A sorted copy; what compares as equal stays in its order. */
export async function sortedInTurns<T>(items: readonly T[], compare: (a: T, b: T) => number): Promise<T[]> {
  let runs: T[][] = [];
  for (let from = 0; from < items.length; from += AT_ONCE) {
    if (from > 0) await nextTurn();
    runs.push(items.slice(from, from + AT_ONCE).sort(compare));
  }
  while (runs.length > 1) {
    const merged: T[][] = [];
    for (let at = 0; at < runs.length; at += 2)
      merged.push(await mergedInTurns(runs[at] ?? [], runs[at + 1] ?? [], compare));
    runs = merged;
  }
  return runs[0] ?? [];
}

async function mergedInTurns<T>(a: T[], b: T[], compare: (a: T, b: T) => number): Promise<T[]> {
  if (b.length === 0) return a;
  const merged: T[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (merged.length % AT_ONCE === 0) await nextTurn();
    const isFirst = j >= b.length || (i < a.length && compare(a[i] as T, b[j] as T) <= 0);
    merged.push((isFirst ? a[i++] : b[j++]) as T);
  }
  return merged;
}
