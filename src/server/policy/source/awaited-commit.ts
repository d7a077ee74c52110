import { type BackoffOptions, backoffMs } from '../../../lib/run/async.js';

/** A commit that a webhook names as the new head of the branch. */
export interface NamedCommit {
  readonly hash: string;
  /** The head before, where the webhook names it. */
  readonly before?: string | undefined;
}

/** How long a named commit is looked for, and how often. */
export interface AwaitTimes {
  readonly retry: BackoffOptions;
  readonly forMs: number;
}

/**
 * Git hosts show a push some seconds after they announce it; mirrors and caches of them some
 * minutes.
 */
const AWAIT_TIMES: AwaitTimes = { retry: { minMs: 1_000, maxMs: 30_000 }, forMs: 300_000 };

/**
 * A named commit that the source has not shown, as people see it. Times are milliseconds since
 * 1970.
 */
export interface Awaited {
  readonly hash: string;
  readonly sinceMs: number;
  /** When looking for it ended; undefined: it goes on. */
  readonly givenUpMs: number | undefined;
}

/** What a look means for the commit that is awaited; undefined: nothing that is worth a word. */
type LookResult = { readonly what: 'missed' | 'came' | 'given up'; readonly hash: string } | undefined;

interface Waiting extends NamedCommit {
  readonly sinceMs: number;
  readonly untilMs: number;
  misses: number;
  nextMs: number;
  /** The running look began after the webhook, and so it counts. */
  counts: boolean;
  givenUp?: { readonly atMs: number; readonly shown: string };
}

/**
 * A webhook may arrive before the git service shows its push. Keeps the newest commit that a
 * webhook named until the source has shown it, and says when to look again, for a bounded time. Not
 * shown are a commit that another push replaced at once, and one that nobody pushed.
 */
export class AwaitedCommit {
  readonly #times: AwaitTimes;
  readonly #now: () => number;
  #waiting: Waiting | undefined;

  /** `now`: a clock that is never set, in milliseconds. */
  constructor(times: AwaitTimes = AWAIT_TIMES, now = () => performance.now()) {
    this.#times = times;
    this.#now = now;
  }

  /** A webhook named a commit, which replaces an earlier one. */
  named({ hash, before }: NamedCommit): void {
    const nowMs = this.#now();
    const untilMs = nowMs + this.#times.forMs;
    this.#waiting = { hash, before, sinceMs: Date.now(), untilMs, misses: 0, nextMs: nowMs, counts: false };
  }

  /** A look at the source begins. */
  begin(): void {
    if (this.#waiting !== undefined) this.#waiting.counts = true;
  }

  /** The look has shown a commit. `has`: whether the local copy has a commit. */
  async looked(shown: string, has: (hash: string) => Promise<boolean>): Promise<LookResult> {
    const waiting = this.#waiting;
    if (waiting === undefined) return undefined;
    if (await isOver(waiting, shown, has)) {
      if (this.#waiting === waiting) this.#waiting = undefined;
      return waiting.misses > 0 ? { what: 'came', hash: waiting.hash } : undefined;
    }
    return this.#waiting === waiting && waiting.counts ? this.#missed(waiting, shown) : undefined;
  }

  #missed(waiting: Waiting, shown: string): LookResult {
    const { hash, givenUp, untilMs } = waiting;
    const nowMs = this.#now();
    waiting.misses++;
    if (givenUp !== undefined) {
      if (givenUp.shown !== shown) this.#waiting = undefined; // the branch has moved on without it
      return undefined;
    }
    if (nowMs >= untilMs) {
      waiting.givenUp = { atMs: Date.now(), shown };
      return { what: 'given up', hash };
    }
    waiting.nextMs = Math.min(untilMs, nowMs + backoffMs(waiting.misses, this.#times.retry));
    return waiting.misses === 1 ? { what: 'missed', hash } : undefined;
  }

  /** Time until the next look; undefined: none is due. */
  get leftMs(): number | undefined {
    if (this.#waiting === undefined || this.#waiting.givenUp !== undefined) return undefined;
    return Math.max(0, this.#waiting.nextMs - this.#now());
  }

  /** The commit that at least one look has not shown. */
  get missing(): Awaited | undefined {
    if (this.#waiting === undefined || this.#waiting.misses === 0) return undefined;
    const { hash, sinceMs, givenUp } = this.#waiting;
    return { hash, sinceMs, givenUpMs: givenUp?.atMs };
  }
}

/**
 * Whether the source shows a commit, or one that came after it. A push that moves the branch back
 * names a commit that is here for long: while the source shows the head from before the push, it
 * has not come.
 */
async function isOver(
  { hash, before }: NamedCommit,
  shown: string,
  has: (hash: string) => Promise<boolean>,
): Promise<boolean> {
  return shown === hash || (shown !== before && (await has(hash)));
}
