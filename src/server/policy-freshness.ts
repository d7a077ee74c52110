import { SyncError } from '../lib/errors.js';
import type { SharedPolicyHead } from './shared-policy-head.js';
import type { GitObjects } from './source/git-objects.js';
import type { PolicySource } from './source/source.js';
import type { Tracker } from './source/tracker.js';

/** Decides whether this instance may answer `GET /policy` now (design D24). */
export interface PolicyFreshness {
  /**
   * Resolves when it may. `baseHash`: the commit that the caller holds; `waits`: the caller is a PolicySync client, which
   * retries. Throws `policy_not_ready` for such a caller if the bundle could take it back to an older commit.
   */
  check(baseHash: string | undefined, waits: boolean): Promise<void>;
}

export interface FreshnessTimes {
  /** For a refresh of the policy source, if a caller holds an unknown commit. */
  readonly lookMs: number;
  /** Minimum time between two of those refreshes. */
  readonly lookEveryMs: number;
  /**
   * After this time an unknown commit counts as gone, not as newer than the head: longer than it takes to notice that the log is
   * away (`session-keeper.ts`: a look every 5 s, each of 5 s at most).
   */
  readonly unknownMs: number;
}

const TIMES: FreshnessTimes = { lookMs: 5000, lookEveryMs: 1000, unknownMs: 12_000 };
const RETRY_SECONDS = 1;
/** Unknown commits that are remembered. */
const UNKNOWN_KEPT = 1000;
const FULL_HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** Of a server that shares its log with no other: always fresh. */
export const ALWAYS_FRESH: PolicyFreshness = { check: () => Promise.resolve() };

/** Makes the {@link PolicyFreshness} of one of several instances. */
export function createPolicyFreshness(
  deps: {
    tracker: Pick<Tracker, 'head' | 'wanted' | 'refresh'>;
    heads: Pick<SharedPolicyHead, 'look'>;
    objects: Pick<GitObjects, 'hasCommit'>;
    source: Pick<PolicySource, 'isSuccessor'>;
    /** False while the log cannot be reached: then another instance may have agreed on something newer. */
    isLogUp: () => boolean;
    now?: () => number;
  },
  times: FreshnessTimes = TIMES,
): PolicyFreshness {
  const { tracker, heads, objects, source } = deps;
  const now = deps.now ?? (() => performance.now());
  /** When each unknown commit was first asked for. */
  const unknown = new Map<string, number>();
  /** The last refresh, which made-up commits cannot multiply. */
  let looked: { readonly atMs: number; readonly done: Promise<void> } | undefined;

  /** Why the head must not be served to a caller that holds `base`; undefined: it may. */
  async function obstacle(base: string): Promise<'unknown' | 'cut off' | undefined> {
    const head = tracker.head();
    const earlier = heads.look().head?.earlier ?? [];
    if (head === undefined || base === head || earlier.includes(base)) return undefined;
    // Else it may be what the others went on to, of which the log has not told yet. Nobody knows that of an archive: so `[head]`.
    const isOlder = (await objects.hasCommit(base)) && (await source.isSuccessor(head, base, [head]));
    if (isOlder) return undefined;
    return deps.isLogUp() ? 'unknown' : 'cut off';
  }

  function firstAsked(base: string): number {
    const first = unknown.get(base) ?? now();
    unknown.delete(base);
    unknown.set(base, first);
    for (const oldest of unknown.keys()) {
      if (unknown.size <= UNKNOWN_KEPT) break;
      unknown.delete(oldest);
    }
    return first;
  }

  async function look(): Promise<void> {
    if (looked === undefined || now() - looked.atMs >= times.lookEveryMs) {
      looked = { atMs: now(), done: tracker.refresh() };
    }
    await within(times.lookMs, looked.done);
  }

  function checkCurrent(waits: boolean): void {
    if (waits && tracker.head() !== tracker.wanted()) {
      throw notReady('this server instance does not have the commit yet that the instances agreed on');
    }
  }

  return {
    async check(baseHash, waits) {
      checkCurrent(waits);
      const base = baseHash?.trim().toLowerCase();
      if (base === undefined || !FULL_HASH.test(base)) return;
      let found = await obstacle(base);
      if (found === undefined) return;
      const first = firstAsked(base);
      const isGone = now() - first >= times.unknownMs;
      if (found === 'unknown' && !isGone) {
        await look();
        checkCurrent(waits);
        found = await obstacle(base);
      }
      if (found === undefined || !waits) return;
      if (found === 'cut off') throw notReady('this server instance may be behind what the caller holds');
      if (!isGone) throw notReady(`commit ${base} is not known here yet`);
    },
  };
}

function notReady(text: string): SyncError {
  return new SyncError('policy_not_ready', text, { retryable: true, retryAfterSeconds: RETRY_SECONDS });
}

/** Returns when the work is done, or the time is up. */
async function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}
