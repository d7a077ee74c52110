import type { SeenHead } from './shared-policy-head.js';

/** How long a source has to keep showing a commit that may be older, before it is accepted. */
export interface StaleHeadTimes {
  /** Where the source has shown something else before: somebody moved the branch. */
  readonly movedMs: number;
  /** Where it shows what it showed before the agreed head, or never had that: most likely it is a copy that lags behind. */
  readonly unseenMs: number;
}

/** Replicas of a git service differ for seconds; a replica that lags for ten minutes is broken. */
const STALE_HEAD_TIMES: StaleHeadTimes = { movedMs: 10_000, unseenMs: 600_000 };

/**
 * Decides whether a commit that a source shows is news, or the agreed head is the news and the source lags (design D24: a
 * policy head never goes back by accident). A successor that was no head before is news at once. Anything else has to be shown twice
 * or more, and nothing else in between, over a time in which the agreed head stays.
 */
export class StaleHeadGuard {
  readonly #times: StaleHeadTimes;
  /** What the source showed last; and what it showed when the agreed head changed, while it shows that still. */
  #shown: string | undefined;
  #shownBefore: string | undefined;
  #doubted: { hash: string; agreed: string; sinceMs: number; untilMs: number } | undefined;

  constructor(times: StaleHeadTimes = STALE_HEAD_TIMES) {
    this.#times = times;
  }

  /** The instances agreed on a commit: nothing is in doubt any more. `isOwn`: this instance proposed it. */
  agreed(hash: string, isOwn: boolean): void {
    this.#doubted = undefined;
    this.#shownBefore = isOwn || hash === this.#shown ? undefined : this.#shown;
  }

  /** The source shows a commit. */
  shows(hash: string, { head }: SeenHead): void {
    this.#shown = hash;
    if (hash !== this.#shownBefore) this.#shownBefore = undefined;
    if (hash === head?.hash) this.#doubted = undefined;
  }

  /**
   * True: propose the commit that is shown. `isSuccessor`: by history, it came after the agreed head; `isAgreedHere`: that is in the
   * local copy.
   */
  isNews(
    hash: string,
    { head }: SeenHead,
    by: { readonly isSuccessor: boolean; readonly isAgreedHere: boolean },
  ): boolean {
    const { hash: agreed, earlier = [] } = head ?? {};
    // A branch may have been moved back from `hash` to the agreed head, which is its ancestor.
    if (agreed === undefined || (by.isSuccessor && !earlier.includes(hash))) {
      this.#doubted = undefined;
      return true;
    }
    const now = performance.now();
    const hasMoved = by.isAgreedHere && hash !== this.#shownBefore;
    const waitMs = hasMoved ? this.#times.movedMs : this.#times.unseenMs;
    const isRepeated = this.#doubted?.hash === hash && this.#doubted.agreed === agreed;
    const sinceMs = isRepeated && this.#doubted ? this.#doubted.sinceMs : now;
    this.#doubted = { hash, agreed, sinceMs, untilMs: sinceMs + waitMs };
    return isRepeated && now >= this.#doubted.untilMs;
  }

  /** The commit that is not accepted yet. */
  get doubted(): string | undefined {
    return this.#doubted?.hash;
  }

  /** Time until the next refresh can decide; undefined: nothing is in doubt. */
  get leftMs(): number | undefined {
    return this.#doubted && Math.max(0, this.#doubted.untilMs - performance.now());
  }
}
