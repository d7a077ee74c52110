import { networkOf } from '../net/address.js';
import {
  type Bound,
  Budget,
  type BudgetAbout,
  type BudgetState,
  boundsOf,
  type Holder,
  type Release,
} from './budget.js';

/** Who waits for its turn. */
interface Waiting {
  readonly holder: Holder;
  /** Gives back the place in the line. */
  readonly leave: Release;
  readonly begin: (end: Release) => void;
}

/** Callers that wait, in all and of one caller; more are refused. */
const WAITING = { all: 10_000, subject: 1_000, address: 1_000 };

/**
 * Work of which so much is done at a time: in all, and for each caller. The rest waits; callers
 * take turns, so that one with many pieces of work delays another by one of them. The event loop
 * turns between two pieces.
 */
export class Turns {
  readonly #places: Budget;
  readonly #room: Budget;
  /** By caller; the caller in front is the next. */
  readonly #lines = new Map<string, Waiting[]>();

  constructor(atOnce: number, about: BudgetAbout) {
    this.#places = new Budget(boundsOf(atOnce), about);
    this.#room = new Budget(WAITING, about);
  }

  get state(): BudgetState {
    return { ...this.#places.state, refused: this.#room.state.refused };
  }

  /** Who waits now. */
  get waiting(): number {
    return this.#room.state.used;
  }

  /**
   * Resolves when it is the caller's turn, with what ends that. Rejects with `share_used_up` or
   * `server_busy` if too many wait.
   */
  async enter(holder: Holder): Promise<Release> {
    const key = lineOf(holder);
    if (!this.#lines.has(key)) {
      const place = this.#places.take(holder, 1);
      if (typeof place === 'function') return this.#ending(place);
    }
    const leave = this.#room.take(holder, 1);
    if (typeof leave !== 'function') throw this.#room.refusal(leave);
    return await new Promise((begin) => {
      const line = this.#lines.get(key) ?? [];
      line.push({ holder, leave, begin });
      this.#lines.set(key, line);
    });
  }

  /** Does the work in its turn. */
  async run<T>(holder: Holder, work: () => Promise<T> | T): Promise<T> {
    const end = await this.enter(holder);
    try {
      return await work();
    } finally {
      end();
    }
  }

  #ending(place: Release): Release {
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      setImmediate(() => {
        place();
        this.#next();
      });
    };
  }

  /** Begins with those for whom there is a place now, one of each line. */
  #next(): void {
    for (const [key, line] of [...this.#lines]) {
      const [first] = line;
      const place: Release | Bound = first === undefined ? 'subject' : this.#places.take(first.holder, 1);
      if (place === 'all') return;
      if (first === undefined || typeof place !== 'function') continue;
      line.shift();
      this.#lines.delete(key);
      if (line.length > 0) this.#lines.set(key, line); // behind the others
      first.leave();
      first.begin(this.#ending(place));
    }
  }
}

/** Whose line it is. */
export function lineOf({ subject, address }: Holder): string {
  return subject === null ? `address ${networkOf(address)}` : `subject ${subject}`;
}
