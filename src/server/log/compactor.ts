import type { AppendQueue } from './append-queue.js';
import type { Fold } from './fold.js';
import { compactionText } from './row.js';

/** Writes documents anew that many patches wait for, a few at a time. */
export class Compactor {
  readonly #queue: AppendQueue;
  #underWay = 0;

  constructor(queue: AppendQueue) {
    this.#queue = queue;
  }

  /** Appends what is due; while something is under way nothing more. What fails is asked for again by the next patch. */
  write(fold: Fold): void {
    if (this.#underWay > 0) return;
    const done = (): void => {
      this.#underWay--;
    };
    for (const compaction of fold.takeCompactions()) {
      this.#underWay++;
      // Every instance does it; one row is enough.
      const dedup = `compaction:${compaction.place.join('/')}`;
      const row = { kind: 'update', body: compactionText(compaction), dedup } as const;
      this.#queue.append({ row }).then(done, done); // the queue logs what fails
    }
  }
}
