import type { Item } from './list-model';

/** Where the keyboard is in the list. */
export interface Place {
  readonly items: readonly Item[];
  /** -1: nowhere yet. */
  readonly at: number;
  /** Lines that a Page key moves by. */
  readonly page: number;
}

/**
 * The index of the line that a key leads to; undefined: it is no key of the list. Heads of groups
 * are passed over.
 */
export function keyStep(key: string, { items, at, page }: Place): number | undefined {
  const last = items.length - 1;
  switch (key) {
    case 'ArrowDown':
    case 'j':
      return nearestRow(items, at + 1, 1);
    case 'ArrowUp':
    case 'k':
      return nearestRow(items, at === -1 ? 0 : at - 1, -1);
    case 'PageDown':
      return nearestRow(items, Math.min(last, at + page), 1);
    case 'PageUp':
      return nearestRow(items, Math.max(0, at - page), -1);
    case 'Home':
      return nearestRow(items, 0, 1);
    case 'End':
      return nearestRow(items, last, -1);
    default:
      return undefined;
  }
}

/** The first client from here in this direction, else in the other one. */
function nearestRow(items: readonly Item[], from: number, step: 1 | -1): number | undefined {
  const search = (start: number, by: 1 | -1): number | undefined => {
    for (let index = start; index >= 0 && index < items.length; index += by) {
      if (items[index]?.kind === 'row') return index;
    }
    return undefined;
  };
  const start = Math.min(Math.max(0, from), items.length - 1);
  return search(start, step) ?? search(start, step === 1 ? -1 : 1);
}
