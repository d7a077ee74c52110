import type { PeerEntry } from '../../wire/data.js';
import type { FoldedEntry } from './update-log.js';

/** A place in the order of entries: `seq` of the record, `index` within it. */
export type Place = readonly [seq: number, index: number];

/** Negative when `a` is applied before `b`. */
export function comparePlace(a: Place, b: Place): number {
  return a[0] - b[0] || a[1] - b[1];
}

/** The same text for the same place. */
export function placeKey([seq, index]: Place): string {
  return `${seq}/${index}`;
}

/** An entry and its place. */
export interface PlacedBase {
  readonly place: Place;
  readonly entry: PeerEntry;
}

/**
 * A document with its patches applied: a row that replaces them, as a PUT at the place of the last
 * patch.
 */
export interface Compaction extends PlacedBase {
  readonly update: FoldedEntry['update'];
  /** The last row that it was made of. */
  readonly made: number;
  /**
   * Topics on which it was superseded at that time, maybe by a base entry that is removed later.
   */
  readonly closed?: readonly string[] | undefined;
}

/** An entry of a record that is superseded on these topics; undefined: on all. */
export interface Superseded {
  readonly place: Place;
  readonly topics?: readonly string[] | undefined;
}
