import type { AppendQueue } from './append-queue.js';
import type { Fold } from './fold.js';
import { compactionText } from './row.js';

/** Appends documents with many patches as one PUT each. */
export class Compactor {
  readonly #queue: AppendQueue;
  #underWay = 0;

  constructor(queue: AppendQueue) {
    this.#queue = queue;
  }

  /** Appends what is due, unless earlier compactions are still being appended. After a failure the next patch makes it due again. */
  write(fold: Fold): void {
    if (this.#underWay > 0) return;
    const done = (): void => {
      this.#underWay--;
    };
    for (const compaction of fold.takeCompactions()) {
      this.#underWay++;
      // Every instance appends it: the dedup text keeps one row.
      const dedup = `compaction:${compaction.place.join('/')}`;
      const row = { kind: 'update', body: compactionText(compaction), dedup } as const;
      this.#queue.append({ row }).then(done, done); // the queue logs failures
    }
  }
}
