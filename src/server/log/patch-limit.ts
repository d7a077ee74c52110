import { SyncError } from '../../lib/errors.js';
import { docPathText, parseDocPath } from '../../wire/doc-path.js';
import type { Fold } from './fold.js';
import type { NewRecord } from './update-log.js';

/** Bounds the patches that stack at one path: nobody could catch up by thousands (design 9.5). */
export class PatchLimit {
  readonly #atMost: number;
  /** Patches that are under way, by path. */
  readonly #underWay = new Map<string, number>();

  constructor(atMost: number) {
    this.#atMost = atMost;
  }

  /** Throws `too_many_patches` where the fold and what is under way have so many at a path of the record. */
  check(record: NewRecord, fold: Fold): void {
    for (const entry of record.entries) {
      if (entry.save_method !== 'PATCH' || record.retain === false) continue;
      const path = parseDocPath(entry.dst_path);
      const text = docPathText(path);
      const underWay = this.#underWay.get(text) ?? 0;
      if (fold.patchesAt(path) + underWay < this.#atMost) continue;
      const stacked = fold.patchesWith(entry);
      if (stacked === 0 || stacked + underWay <= this.#atMost) continue;
      throw new SyncError('too_many_patches', `${this.#atMost} patches stand at ${text} already: publish a PUT there`);
    }
  }

  /** Counts the patches of a record while it is appended. */
  async during<T>(record: NewRecord, append: () => Promise<T>): Promise<T> {
    const paths = patchPaths(record);
    for (const path of paths) this.#underWay.set(path, (this.#underWay.get(path) ?? 0) + 1);
    try {
      return await append();
    } finally {
      for (const path of paths) {
        const left = (this.#underWay.get(path) ?? 1) - 1;
        if (left === 0) this.#underWay.delete(path);
        else this.#underWay.set(path, left);
      }
    }
  }
}

function patchPaths({ entries }: NewRecord): string[] {
  return entries
    .filter(({ save_method }) => save_method === 'PATCH')
    .map(({ dst_path }) => docPathText(parseDocPath(dst_path)));
}
