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

/** A base entry and where it stands. */
export interface PlacedBase {
  readonly place: Place;
  readonly entry: PeerEntry;
}

/** A document with its patches worked in, to be written to the log in their stead. */
export interface Compaction extends PlacedBase {
  readonly update: FoldedEntry['update'];
  /** Topics on which it was superseded when it was made, maybe by a base entry that is gone later. */
  readonly closed?: readonly string[] | undefined;
}

/** An entry of a record that is superseded on these topics; without them: on all. */
export interface Superseded {
  readonly place: Place;
  readonly topics?: readonly string[] | undefined;
}
