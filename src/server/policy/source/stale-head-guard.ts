import type { SeenHead } from './shared-policy-head.js';

/** How long a source must keep showing a commit that may be older before it is accepted. */
export interface StaleHeadTimes {
  /** If the source showed another commit before: somebody moved the branch. */
  readonly movedMs: number;
  /**
   * If it shows the same as before the agreed head, or never had the agreed head: most likely it is
   * a replica that lags.
   */
  readonly unseenMs: number;
}

/** Replicas of a git service differ for seconds; a replica that lags for ten minutes is broken. */
const STALE_HEAD_TIMES: StaleHeadTimes = { movedMs: 10_000, unseenMs: 600_000 };

/**
 * Decides whether a commit that a source shows is new, or the source lags behind the agreed head
 * (design D24: a policy head never moves back by accident). A successor that was no head before is
 * new at once. Any other commit must be shown at least twice, with none in between, while the
 * agreed head stays the same for the required time.
 */
export class StaleHeadGuard {
  readonly #times: StaleHeadTimes;
  /**
   * The commit that the source showed last; and the one it showed when the agreed head changed,
   * while it still shows that.
   */
  #shown: string | undefined;
  #shownBefore: string | undefined;
  #doubted: { hash: string; agreed: string; sinceMs: number; untilMs: number } | undefined;

  constructor(times: StaleHeadTimes = STALE_HEAD_TIMES) {
    this.#times = times;
  }

  /**
   * Records that the instances agreed on a commit: no commit is in doubt any more. `isOwn`: this
   * instance proposed it.
   */
  agreed(hash: string, isOwn: boolean): void {
    this.#doubted = undefined;
    this.#shownBefore = isOwn || hash === this.#shown ? undefined : this.#shown;
  }

  /** Records the commit that the source shows. */
  shows(hash: string, { head }: SeenHead): void {
    this.#shown = hash;
    if (hash !== this.#shownBefore) this.#shownBefore = undefined;
    if (hash === head?.hash) this.#doubted = undefined;
  }

  /**
   * Whether to propose the commit. `isSuccessor`: by history, it is later than the agreed head.
   * `isAgreedHere`: the agreed head is in the local copy.
   */
  isNews(
    hash: string,
    { head }: SeenHead,
    by: { readonly isSuccessor: boolean; readonly isAgreedHere: boolean },
  ): boolean {
    const { hash: agreed, earlier = [] } = head ?? {};
    // An earlier head does not count: the branch may have been moved back from `hash` to the agreed
    // head, its ancestor.
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

  /** Time until the next refresh can decide; undefined: no commit is in doubt. */
  get leftMs(): number | undefined {
    return this.#doubted && Math.max(0, this.#doubted.untilMs - performance.now());
  }
}
