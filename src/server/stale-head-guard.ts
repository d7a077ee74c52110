import type { SeenHead } from './shared-policy-head.js';

/** How long a source has to go on showing a commit that may be an older one, before it is believed. */
export interface StaleHeadTimes {
  /** Where the source has shown something else before: somebody moved the branch. */
  readonly movedMs: number;
  /** Where it shows what it showed before the agreed head, or never had that: most likely it is a copy that lags behind. */
  readonly unseenMs: number;
}

/** Answers of one load-balanced git service differ for seconds; copies that lag for ten minutes are broken. */
export const STALE_HEAD_TIMES: StaleHeadTimes = { movedMs: 10_000, unseenMs: 600_000 };

/** What a source shows, beside what was agreed on. */
export interface Shown {
  readonly hash: string;
  readonly seen: SeenHead;
  /** By history, `hash` came after the agreed head. */
  readonly isSuccessor: boolean;
  /** The agreed head is in the local copy, and the source shows something else than when that was agreed on. */
  readonly hasMoved: boolean;
}

/**
 * Decides whether a commit that a source shows is news, or the agreed head is the news and the source lags (design D24: a
 * policy head never goes back by accident). A successor that was no head before is news at once. Anything else has to be shown by two looks or
 * more, and by no other in between, over a time in which the agreed head stays. Pure but for what it remembers.
 */
export class StaleHeadGuard {
  readonly #times: StaleHeadTimes;
  readonly #now: () => number;
  #doubted: { hash: string; agreed: string; sinceMs: number; untilMs: number } | undefined;

  constructor(times: StaleHeadTimes, now: () => number = () => performance.now()) {
    this.#times = times;
    this.#now = now;
  }

  /** True: propose it. */
  isNews({ hash, seen, isSuccessor, hasMoved }: Shown): boolean {
    const { hash: agreed, earlier = [] } = seen.head ?? {};
    // A branch may have been moved back from `hash` to the agreed head, which is its ancestor.
    if (agreed === undefined || (isSuccessor && !earlier.includes(hash))) {
      this.#doubted = undefined;
      return true;
    }
    const now = this.#now();
    const waitMs = hasMoved ? this.#times.movedMs : this.#times.unseenMs;
    if (this.#doubted?.hash !== hash || this.#doubted.agreed !== agreed) {
      this.#doubted = { hash, agreed, sinceMs: now, untilMs: now + waitMs };
      return false;
    }
    this.#doubted.untilMs = this.#doubted.sinceMs + waitMs;
    return now >= this.#doubted.untilMs;
  }

  /** The source shows the agreed head, or that has changed: what was seen before says nothing any more. */
  clear(): void {
    this.#doubted = undefined;
  }

  /** The commit that is not believed yet. */
  get hash(): string | undefined {
    return this.#doubted?.hash;
  }

  /** Until it is worth to look again; undefined: nothing is in doubt. */
  get leftMs(): number | undefined {
    return this.#doubted === undefined ? undefined : Math.max(0, this.#doubted.untilMs - this.#now());
  }
}
