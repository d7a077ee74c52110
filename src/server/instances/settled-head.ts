import { SETTLED_AFTER_MS } from './instance-rules.js';

/** Minimum time between two notes that are kept. */
const EVERY_MS = 1000;
const KEPT = 8;

interface Note {
  readonly atMs: number;
  readonly seq: number;
}

/**
 * How far the log was a few seconds ago: what an instance has not seen of that, it is behind. The newest rows prove nothing, since
 * announcements are older than these.
 */
export class SettledHead {
  readonly #now: () => number;
  /** The oldest first. */
  readonly #notes: Note[] = [];
  #last: Note;

  /** `head`: of the log at the start. */
  constructor(head: number, now: () => number) {
    this.#now = now;
    this.#last = { atMs: now(), seq: head };
  }

  /** The log has reached `seq`. */
  reached(seq: number): void {
    const note = { atMs: this.#now(), seq };
    const isDue = this.#last.atMs - (this.#notes.at(-1)?.atMs ?? 0) >= EVERY_MS;
    if (isDue && this.#notes.push(this.#last) > KEPT) this.#notes.shift();
    this.#last = note;
  }

  /** A position that every instance has seen by now, unless it is behind. */
  get seq(): number {
    const before = this.#now() - SETTLED_AFTER_MS;
    if (this.#last.atMs <= before) return this.#last.seq;
    return this.#notes.findLast(({ atMs }) => atMs <= before)?.seq ?? 0;
  }
}
