import { SyncError } from '../../lib/errors.js';
import { firstOf } from '../../lib/run/async.js';
import type { GitObjects } from './source/git-objects.js';
import type { SharedPolicyHead } from './source/shared-policy-head.js';
import type { PolicySource } from './source/source.js';
import type { Tracker } from './source/tracker.js';

export interface FreshnessTimes {
  /** Maximum wait for a refresh of the policy source when a caller holds an unknown commit. */
  readonly lookMs: number;
  /** Minimum time between two such refreshes. */
  readonly lookEveryMs: number;
  /**
   * After this time an unknown commit counts as gone, not as newer than the head. Longer than it
   * takes to detect an unreachable log (`session-keeper.ts`: a probe every 5 s, with a timeout of 5
   * s).
   */
  readonly unknownMs: number;
}

const TIMES: FreshnessTimes = { lookMs: 5000, lookEveryMs: 1000, unknownMs: 12_000 };
const RETRY_SECONDS = 1;
/** Unknown commits that are remembered. */
const UNKNOWN_KEPT = 1000;
const FULL_HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

export interface FreshnessDeps {
  readonly tracker: Pick<Tracker, 'head' | 'wanted' | 'refresh'>;
  readonly heads: Pick<SharedPolicyHead, 'look'>;
  readonly objects: Pick<GitObjects, 'hasCommit'>;
  readonly source: Pick<PolicySource, 'isSuccessor'>;
  /** False while the log is unreachable: other instances may have agreed on a newer commit. */
  readonly isLogUp: () => boolean;
  readonly now?: () => number;
}

/** Decides whether one of several instances may serve `GET /policy` now (design D24). */
export class PolicyFreshness {
  readonly #deps: FreshnessDeps;
  readonly #times: FreshnessTimes;
  readonly #now: () => number;
  /** When a caller first sent each unknown commit. */
  readonly #unknown = new Map<string, number>();
  /** The last refresh. Callers share it, so that invented commits do not cause more. */
  #refreshed: { readonly atMs: number; readonly done: Promise<void> } | undefined;

  constructor(deps: FreshnessDeps, times: FreshnessTimes = TIMES) {
    this.#deps = deps;
    this.#times = times;
    this.#now = deps.now ?? (() => performance.now());
  }

  /**
   * Resolves when this instance may serve the bundle. `baseHash`: the commit that the caller holds.
   * `waits`: the caller is a PolicySync client, which retries. Rejects with `policy_not_ready` if
   * the bundle could take such a client back to an older commit.
   */
  async check(baseHash: string | undefined, waits: boolean): Promise<void> {
    this.#checkHead(waits);
    const base = baseHash?.trim().toLowerCase();
    if (base === undefined || !FULL_HASH.test(base)) return;
    let obstacle = await this.#obstacle(base);
    if (obstacle === undefined) return;
    const isGone = this.#now() - this.#firstAsked(base) >= this.#times.unknownMs;
    if (obstacle === 'unknown' && !isGone) {
      await this.#refresh();
      this.#checkHead(waits);
      obstacle = await this.#obstacle(base);
    }
    if (obstacle === undefined || !waits) return;
    if (obstacle === 'cut off') throw notReady('this server instance may be behind the commit of the caller');
    if (!isGone) throw notReady(`commit ${base} is not known here yet`);
  }

  #checkHead(waits: boolean): void {
    const { tracker } = this.#deps;
    if (waits && tracker.head() !== tracker.wanted()) {
      throw notReady('this server instance does not have the agreed commit yet');
    }
  }

  /**
   * Returns why the head must not be served to a caller that holds `base`; undefined: it may be.
   */
  async #obstacle(base: string): Promise<'unknown' | 'cut off' | undefined> {
    const { tracker, heads, objects, source, isLogUp } = this.#deps;
    const head = tracker.head();
    const earlier = heads.look().head?.earlier ?? [];
    if (head === undefined || base === head || earlier.includes(base)) return undefined;
    // Otherwise it may be a later head that the log has not delivered yet. An archive has no
    // history: hence `[head]`.
    const isOlder = (await objects.hasCommit(base)) && (await source.isSuccessor(head, base, [head]));
    if (isOlder) return undefined;
    return isLogUp() ? 'unknown' : 'cut off';
  }

  #firstAsked(base: string): number {
    const first = this.#unknown.get(base) ?? this.#now();
    this.#unknown.delete(base);
    this.#unknown.set(base, first);
    const [oldest = base] = this.#unknown.keys();
    if (this.#unknown.size > UNKNOWN_KEPT) this.#unknown.delete(oldest);
    return first;
  }

  async #refresh(): Promise<void> {
    const { lookMs, lookEveryMs } = this.#times;
    if (this.#refreshed === undefined || this.#now() - this.#refreshed.atMs >= lookEveryMs) {
      this.#refreshed = { atMs: this.#now(), done: this.#deps.tracker.refresh() };
    }
    await within(lookMs, this.#refreshed.done);
  }
}

/** For a server that does not share its log. */
export const ALWAYS_FRESH: Pick<PolicyFreshness, 'check'> = { check: () => Promise.resolve() };

function notReady(text: string): SyncError {
  return new SyncError('policy_not_ready', text, { retryable: true, retryAfterSeconds: RETRY_SECONDS });
}

/** Resolves when the work is done or the time is up. */
async function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await firstOf([work, late]).finally(() => clearTimeout(timer));
}
