import type { SyncError } from '../errors.js';
import { networkOf } from '../net/address.js';
import { type Bound, type ByteBudget, Held, type Holder, SMALL_BYTES } from './budget.js';

/** What arrives more slowly than this gives way to others. */
const LEAST_BYTES_PER_SECOND = 65_536;
/** How long it may be slower. */
const PATIENCE_MS = 1_000;
/** All that is open is looked through at most this often. */
const LOOK_EVERY_MS = 100;

/**
 * What arrives in pieces and is kept until it is whole: request bodies. Where there is no room for
 * a piece, those that stall give way; without anybody who needs their room, slow ones are left
 * alone.
 */
export class Arrivals {
  readonly #budget: ByteBudget;
  readonly #now: () => number;
  readonly #open = new Set<Arrival>();
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(budget: ByteBudget, now: () => number = () => performance.now()) {
    this.#budget = budget;
    this.#now = now;
  }

  /**
   * Something of the holder's begins to arrive. `giveWay` is called, at most once, if others get
   * its room.
   */
  begin(holder: Holder, giveWay: () => void): Arrival {
    const arrival = new Arrival(this.#budget, { holder, giveWay }, this.#now(), {
      stalled: (full) => this.#makeRoom(full, arrival),
      ended: () => this.#open.delete(arrival),
    });
    this.#open.add(arrival);
    return arrival;
  }

  /**
   * Has those that stall give way where the bound of `newcomer` is reached; returns whether any
   * has.
   */
  #makeRoom(full: Bound, newcomer: Arrival): boolean {
    const nowMs = this.#now();
    if (nowMs - this.#lookedMs < LOOK_EVERY_MS) return false;
    this.#lookedMs = nowMs;
    const stalled = [...this.#open].filter(
      (one) => one !== newcomer && one.isBeside(newcomer, full) && one.hasStalled(nowMs),
    );
    for (const one of stalled) one.giveWay();
    return stalled.length > 0;
  }
}

/** One of {@link Arrivals}. */
export class Arrival {
  readonly #budget: ByteBudget;
  readonly #held: Held;
  readonly #about: { readonly holder: Holder; readonly giveWay: () => void };
  readonly #events: { readonly stalled: (full: Bound) => boolean; readonly ended: () => void };
  #bytes = 0;
  /** How much had arrived when it was looked at last. */
  #seen: { readonly atMs: number; readonly bytes: number };

  constructor(
    budget: ByteBudget,
    about: { readonly holder: Holder; readonly giveWay: () => void },
    nowMs: number,
    events: { readonly stalled: (full: Bound) => boolean; readonly ended: () => void },
  ) {
    this.#budget = budget;
    this.#held = new Held(budget, about.holder);
    this.#about = about;
    this.#events = events;
    this.#seen = { atMs: nowMs, bytes: 0 };
  }

  /** A piece has arrived. Returns the error if there is no room for it. */
  add(bytes: number): SyncError | undefined {
    this.#bytes += bytes;
    let full = this.#held.resize(this.#bytes);
    if (full !== undefined && this.#events.stalled(full)) full = this.#held.resize(this.#bytes);
    return full === undefined ? undefined : this.#budget.refusal(full, this.#bytes);
  }

  /** It is whole: it keeps its room, and does not give way any more. */
  isWhole(): void {
    this.#events.ended();
  }

  /** It is no longer needed. */
  end(): void {
    this.#events.ended();
    this.#held.release();
  }

  /** Whether it takes room of the bound that `other` has reached. */
  isBeside(other: Arrival, full: Bound): boolean {
    if (this.#isSmall !== other.#isSmall) return false;
    const [mine, others] = [this.#about.holder, other.#about.holder];
    if (full === 'address') return networkOf(mine.address) === networkOf(others.address);
    return full === 'all' || mine.subject === others.subject;
  }

  get #isSmall(): boolean {
    return this.#bytes <= SMALL_BYTES;
  }

  /** Whether it has been slower than it may be since it was looked at last. */
  hasStalled(nowMs: number): boolean {
    const forMs = nowMs - this.#seen.atMs;
    if (forMs < PATIENCE_MS) return false;
    const isSlow = (this.#bytes - this.#seen.bytes) * 1000 < LEAST_BYTES_PER_SECOND * forMs;
    if (!isSlow) this.#seen = { atMs: nowMs, bytes: this.#bytes };
    return isSlow;
  }

  giveWay(): void {
    this.end();
    this.#about.giveWay();
  }
}
