import { createHash } from 'node:crypto';
import { SyncError } from '../../../lib/errors.js';
import type { CommitProblem } from '../../../wire/commit-problem.js';
import type { Snapshot, Snapshots } from '../bundle/snapshot.js';
import type { CommitGate, GateAnswer } from '../source/source.js';
import { candidateStep, type GateMode, type Verdict } from './gate-rules.js';

/** One of the checks of the gate. */
export interface GateCheck {
  /** Its name and all that decides what it finds: two instances with the same find the same. */
  readonly identity: string;
  /**
   * What keeps a commit from being served. Rejects with `policy_gate_failed` if it cannot say, and
   * with `git_failed`.
   */
  check(commit: Snapshot, signal: AbortSignal): Promise<readonly CommitProblem[]>;
  /** A commit is expected: what takes time at the start of a check may begin. */
  prepare(): void;
  /** Ends what {@link prepare} began. */
  close(): Promise<void>;
}

/**
 * Time without a check after one that could not say, as a multiple of what it took: it may take a
 * whole processor.
 */
const REST_FACTOR = 4;
const MAX_REST_MS = 300_000;

/** What is known of a commit. */
interface Known {
  readonly verdict: Verdict;
  readonly problems: readonly CommitProblem[];
  /** Why the checks did not end. */
  readonly error?: SyncError;
  /** Until when it counts. */
  readonly untilMs?: number;
}

/**
 * What every commit passes before it is served: a list of checks. Each commit is checked by itself,
 * and once however often it is asked.
 */
export class PolicyGate implements CommitGate {
  readonly judge: string;
  readonly #mode: GateMode;
  readonly #checks: readonly GateCheck[];
  readonly #snapshots: Pick<Snapshots, 'get'>;
  readonly #now: () => number;
  /** The commit that was checked last. */
  #last: { readonly hash: string; readonly known: Known } | undefined;

  constructor(
    { mode, checks }: { readonly mode: GateMode; readonly checks: readonly GateCheck[] },
    deps: { readonly snapshots: Pick<Snapshots, 'get'>; readonly now?: () => number },
  ) {
    const identities = JSON.stringify(checks.map(({ identity }) => identity));
    this.judge = createHash('sha256').update(identities).digest('hex').slice(0, 16);
    this.#mode = mode;
    this.#checks = checks;
    this.#snapshots = deps.snapshots;
    this.#now = deps.now ?? (() => performance.now());
  }

  expect(): void {
    for (const check of this.#checks) check.prepare();
  }

  async close(): Promise<void> {
    for (const check of this.#checks) await check.close();
  }

  async decide(hash: string, told: readonly CommitProblem[] | undefined, signal: AbortSignal): Promise<GateAnswer> {
    const known: Known =
      told === undefined
        ? (this.#recalled(hash) ?? (await this.#checked(hash, signal)))
        : { verdict: 'bad', problems: told };
    return { step: candidateStep(this.#mode, known.verdict), problems: known.problems, error: known.error };
  }

  #recalled(hash: string): Known | undefined {
    const last = this.#last;
    if (last?.hash !== hash || this.#now() >= (last.known.untilMs ?? Number.POSITIVE_INFINITY)) return undefined;
    return last.known;
  }

  async #checked(hash: string, signal: AbortSignal): Promise<Known> {
    const known = await this.#check(await this.#snapshots.get(hash), signal);
    this.#last = { hash, known };
    return known;
  }

  async #check(commit: Snapshot, signal: AbortSignal): Promise<Known> {
    const startedMs = this.#now();
    try {
      for (const check of this.#checks) {
        const problems = await check.check(commit, signal);
        if (problems.length > 0) return { verdict: 'bad', problems }; // later checks build upon the earlier ones
      }
      return { verdict: 'good', problems: [] };
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof SyncError) || error.code !== 'policy_gate_failed') throw error;
      const nowMs = this.#now();
      const untilMs = nowMs + Math.min(MAX_REST_MS, REST_FACTOR * (nowMs - startedMs));
      return { verdict: 'unsure', problems: [], error, untilMs };
    }
  }
}
