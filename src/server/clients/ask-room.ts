import type { AskKind } from '../../wire/session.js';

/** Room for asks under way. Pages ask for details all the time: they get at most half of it. */
export class AskRoom {
  readonly #max: number;
  #details = 0;
  #actions = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a place. Returns what gives it back, to be called once; undefined: all are taken. */
  enter(kind: AskKind): (() => void) | undefined {
    const isDetails = kind === 'details';
    if (this.#details + this.#actions >= this.#max) return undefined;
    if (isDetails && this.#details >= Math.ceil(this.#max / 2)) return undefined;
    if (isDetails) this.#details++;
    else this.#actions++;
    return () => {
      if (isDetails) this.#details--;
      else this.#actions--;
    };
  }
}
