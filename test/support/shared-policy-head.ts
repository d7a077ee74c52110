import { SyncError } from '../../src/lib/errors.js';
import type {
  SeenHead,
  SharedHead,
  SharedPolicyHead,
  SharedVerdict,
} from '../../src/server/policy/source/shared-policy-head.js';

/** The agreed heads of one policy source in memory, for as many instances as a test has. */
export class MemoryHeads {
  place = 0;
  head: SharedHead | undefined;
  /** Every head so far, in order. */
  readonly all: string[] = [];
  readonly verdicts = new Map<string, SharedVerdict>();
  readonly #listeners = new Set<(hash: string) => void>();
  readonly #refusalListeners = new Set<(hash: string) => void>();
  /** While set, proposals fail with it. */
  problem: Error | undefined;

  /** What one instance gets. */
  handle(isShared: boolean): SharedPolicyHead {
    return {
      isShared,
      look: () => ({ place: this.place, head: this.head }),
      verdictOn: (hash) => this.verdicts.get(hash),
      refuse: async (verdict, seen) => {
        this.#move(seen);
        this.verdicts.set(verdict.hash, verdict);
        for (const listener of [...this.#refusalListeners]) listener(verdict.hash);
      },
      onRefused: (listener) => {
        const own = (hash: string): void => listener(hash);
        this.#refusalListeners.add(own);
        return () => this.#refusalListeners.delete(own);
      },
      propose: async (hash, seen, _, verdict) => {
        this.#propose(hash, seen);
        this.verdicts.delete(hash);
        if (verdict !== undefined) this.verdicts.set(hash, verdict);
      },
      onChange: (listener) => {
        const own = (hash: string): void => listener(hash);
        this.#listeners.add(own);
        return () => this.#listeners.delete(own);
      },
    };
  }

  /** Another instance proposes it. */
  set(hash: string): void {
    this.#propose(hash, { place: this.place, head: this.head });
  }

  #move(seen: SeenHead): void {
    if (this.problem !== undefined) throw this.problem;
    if (seen.place !== this.place) throw new SyncError('log_conflict', 'somebody was faster');
    this.place++;
  }

  #propose(hash: string, seen: SeenHead): void {
    this.#move(seen);
    const earlier = this.head === undefined ? [] : [this.head.hash, ...this.head.earlier];
    this.head = { hash, earlier: earlier.filter((one) => one !== hash) };
    this.all.push(hash);
    for (const listener of [...this.#listeners]) listener(hash);
  }
}

/** For a server that is alone. */
export function ownHeads(): SharedPolicyHead {
  return new MemoryHeads().handle(false);
}
