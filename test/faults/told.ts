import { concerns } from './model.js';

/** An update of the log by its place, and the topics of its entries. */
export interface PlacedUpdate {
  readonly seq: number;
  readonly topics: readonly string[];
}

/**
 * What a subscriber was told of a log: up to a place all that was left of it, from then on each update of its topics. It takes
 * updates in order alone, as a client applies them.
 */
export class Told {
  readonly #topics: readonly string[];
  readonly #seqs: number[] = [];
  #epoch: string | undefined;
  /** The fold had all up to here that nothing newer replaced. */
  #folded = 0;
  #through = 0;

  constructor(topics: readonly string[]) {
    this.#topics = topics;
  }

  /** The log that it is of; undefined: nothing was told yet. */
  get epoch(): string | undefined {
    return this.#epoch;
  }

  /** Everything on its topics up to this place is here. */
  get through(): number {
    return this.#through;
  }

  concerns(topics: readonly string[]): boolean {
    return concerns(topics, this.#topics);
  }

  /** A fold is read, as of this place of a log: what was told before counts no more. */
  begin(epoch: string, head: number): void {
    this.#epoch = epoch;
    this.#seqs.length = 0;
    this.#folded = head;
    this.#through = head;
  }

  /** One more update; false: it is here already, or the fold had it. */
  take(seq: number): boolean {
    if (seq <= this.#through) return false;
    this.#seqs.push(seq);
    this.#through = seq;
    return true;
  }

  /** What is missing of the updates of this log, all of them in order, and what is too much. */
  judge(epoch: string, placed: readonly PlacedUpdate[]): string[] {
    if (epoch !== this.#epoch) return [`it follows log ${this.#epoch}, not ${epoch}`];
    const own = placed.filter(({ seq, topics }) => seq > this.#folded && this.concerns(topics)).map(({ seq }) => seq);
    const [told, wanted] = [new Set(this.#seqs), new Set(own)];
    return [
      ...own.filter((seq) => !told.has(seq)).map((seq) => `it was never told of seq ${seq}`),
      ...this.#seqs.filter((seq) => !wanted.has(seq)).map((seq) => `it was told of seq ${seq}, which is in no log`),
    ];
  }
}
