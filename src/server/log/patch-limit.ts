import { SyncError } from '../../lib/errors.js';
import type { PeerEntry } from '../../wire/data.js';
import { docPathText, parseDocPath } from '../../wire/doc-path.js';
import type { Fold } from './fold.js';
import type { NewRecord } from './update-log.js';

/**
 * From 1/16 of the limit on, appends to a shared log are exact, so that several instances together
 * do not exceed it.
 */
const NEAR_PART = 16;

/**
 * Bounds the patches that stack at one path on one topic, since a client cannot catch up by
 * thousands of patches (design D16). Per topic, so that a publisher that is limited to one topic
 * cannot exhaust the limit of others.
 */
export class PatchLimit {
  readonly #atMost: number;
  /** Patches that are being appended, by place. */
  readonly #underWay = new Map<string, number>();

  constructor(atMost: number) {
    this.#atMost = atMost;
  }

  /**
   * Throws `too_many_patches` if the record exceeds the limit, together with the fold and the
   * patches that are being appended.
   */
  check(record: NewRecord, fold: Fold): void {
    this.#check(record, fold, this.#underWay);
  }

  /** The same for the record that is appended next: ignores the patches that are being appended. */
  checkNext(record: NewRecord, fold: Fold): void {
    this.#check(record, fold, NONE);
  }

  /** Whether other instances that append at the same time could exhaust the limit. */
  isNear(record: NewRecord, fold: Fold): boolean {
    const own = new Map<string, number>();
    return retainedPatches(record).some((entry) => {
      const path = parseDocPath(entry.dst_path);
      return entry.topics.some((topic) => {
        const place = placeOf(entry, topic);
        own.set(place, (own.get(place) ?? 0) + 1);
        const count = fold.patchesAt(path, topic) + (this.#underWay.get(place) ?? 0) + (own.get(place) ?? 0);
        return count * NEAR_PART > this.#atMost;
      });
    });
  }

  /** Counts the patches of a record while `append` runs. */
  async during<T>(record: NewRecord, append: () => Promise<T>): Promise<T> {
    const places = retainedPatches(record).flatMap((entry) => entry.topics.map((topic) => placeOf(entry, topic)));
    for (const place of places) this.#underWay.set(place, (this.#underWay.get(place) ?? 0) + 1);
    try {
      return await append();
    } finally {
      for (const place of places) {
        const left = (this.#underWay.get(place) ?? 1) - 1;
        if (left === 0) this.#underWay.delete(place);
        else this.#underWay.set(place, left);
      }
    }
  }

  #check(record: NewRecord, fold: Fold, underWay: ReadonlyMap<string, number>): void {
    /** Patches of the earlier entries of the record, by place. */
    const own = new Map<string, number>();
    for (const entry of retainedPatches(record)) {
      const path = parseDocPath(entry.dst_path);
      const others = (topic: string): number => {
        const place = placeOf(entry, topic);
        return (underWay.get(place) ?? 0) + (own.get(place) ?? 0);
      };
      const full = entry.topics.filter((topic) => fold.patchesAt(path, topic) + others(topic) >= this.#atMost);
      const stacked = full.length === 0 ? undefined : fold.patchesWith(entry);
      const topic = full.find((each) => (stacked?.get(each) ?? 0) + others(each) > this.#atMost && stacked?.has(each));
      if (topic !== undefined) {
        const text = `${this.#atMost} patches stack at ${docPathText(path)} already: publish a PUT there`;
        throw new SyncError('too_many_patches', text);
      }
      for (const each of entry.topics) own.set(placeOf(entry, each), (own.get(placeOf(entry, each)) ?? 0) + 1);
    }
  }
}

const NONE: ReadonlyMap<string, number> = new Map();

/** A path and a topic as a key. */
function placeOf({ dst_path }: PeerEntry, topic: string): string {
  return `${docPathText(parseDocPath(dst_path))} ${topic}`;
}

function retainedPatches({ entries, retain }: NewRecord): readonly PeerEntry[] {
  return retain === false ? [] : entries.filter(({ save_method }) => save_method === 'PATCH');
}
