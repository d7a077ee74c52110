import { errorText, failureFields, SyncError } from '../../../lib/errors.js';
import type { Logger } from '../../../lib/observe/log.js';
import { type BackoffOptions, backoffMs, isAbort, startTimer, Wakeup } from '../../../lib/run/async.js';
import { commitProblemText } from '../../../wire/commit-problem.js';
import type { CommitStage, TraceMemory } from '../../changes/change-times.js';
import { AwaitedCommit, type AwaitTimes, type NamedCommit } from './awaited-commit.js';
import { CommitRefused, refusedByGate } from './commit-refused.js';
import { isDamage } from './git-objects.js';
import type { SeenHead, SharedPolicyHead, SharedVerdict } from './shared-policy-head.js';
import type {
  CommitGate,
  CommitReview,
  PolicyHeadChange,
  PolicySource,
  PolicySourceStatus,
  Reviewed,
} from './source.js';
import { StaleHeadGuard, type StaleHeadTimes } from './stale-head-guard.js';

/** Delays after a failed refresh. */
const DEFAULT_RETRY: BackoffOptions = { minMs: 1_000, maxMs: 30_000 };
/** Number of consecutive failures to log as warnings; later ones are errors. */
const WARNINGS = 3;

/** A push that another one replaced at once is the usual reason; nothing is missing then. */
const NEVER_CAME =
  'the commit that a webhook named has not come: if no later push replaced it, send the webhook again, or set SYNC_POLICY_REPO_POLLING_INTERVAL';

/** When a tracker refreshes its source. */
export interface TrackerOptions {
  /** Time between refreshes; 0: only at the start, on request, and after failures. */
  pollingIntervalMs: number;
  retry?: BackoffOptions;
  staleHead?: StaleHeadTimes | undefined;
  /** For commits that webhooks name. */
  awaiting?: AwaitTimes | undefined;
}

export interface TrackerDeps {
  source: PolicySource;
  review: CommitReview;
  /** Undefined: whatever can be served is. */
  gate?: CommitGate | undefined;
  /** The agreed heads of the instances. A commit is served only once it is agreed on. */
  heads: SharedPolicyHead;
  /** Notes when each commit came how far. */
  times?: Pick<TraceMemory['commits'], 'get' | 'reached' | 'failed' | 'forget'> | undefined;
  log: Logger;
}

/** A commit that passed all checks. */
interface Passed {
  readonly reviewed: Reviewed;
  /** What the gate found all the same; undefined: nothing. */
  readonly verdict: SharedVerdict | undefined;
  /** Why the gate could not say. */
  readonly unsure: string | undefined;
}

/** What a tracker reports while it runs. */
export interface TrackerEvents {
  /** Called when a head has become the served one, even if it changes no directory. */
  onServed(change: PolicyHeadChange): void;
}

/**
 * Follows a policy source and decides which commit is served. Proposes a new commit that passed the
 * review to the update log, and serves the head in the log, whichever instance proposed it (design
 * D24). Does nothing until `run`.
 */
export class Tracker {
  readonly #pollMs: number | undefined;
  readonly #retry: BackoffOptions;
  readonly #deps: TrackerDeps;
  readonly #guard: StaleHeadGuard;
  readonly #awaited: AwaitedCommit;
  readonly #wakeup = new Wakeup();
  #onServed: TrackerEvents['onServed'] = () => undefined;
  #waiting = new Set<() => void>();
  #ended = false;

  #head: string | undefined;
  /** The commit that this instance is proposing. */
  #proposed: string | undefined;
  /**
   * `verdict`: the gate's, which the other instances may not know yet; undefined: the review
   * refuses it.
   */
  #refused: { hash: string; error: CommitRefused; verdict?: SharedVerdict } | undefined;
  #checking: string | undefined;
  /** Undefined after a success. */
  #failure: { error: unknown; count: number; sinceMs: number } | undefined;
  #warnings: readonly string[] = [];
  #fetchingSinceMs: number | undefined;
  #lastAttemptMs: number | undefined;
  #lastSuccessMs: number | undefined;
  #lastResult: PolicySourceStatus['lastResult'];

  constructor(options: TrackerOptions, deps: TrackerDeps) {
    this.#pollMs = options.pollingIntervalMs > 0 ? options.pollingIntervalMs : undefined;
    this.#retry = options.retry ?? DEFAULT_RETRY;
    this.#guard = new StaleHeadGuard(options.staleHead);
    this.#awaited = new AwaitedCommit(options.awaiting);
    this.#deps = deps;
  }

  /** The commit that is served; undefined until there is one. */
  head(): string | undefined {
    return this.#head;
  }

  /** The agreed commit. Differs from {@link head} while this instance does not have it. */
  wanted(): string | undefined {
    return this.#deps.heads.look().head?.hash ?? this.#head;
  }

  status(): PolicySourceStatus {
    const failure = this.#failure;
    return {
      state: this.#head === undefined ? 'starting' : failure === undefined ? 'following' : 'failing',
      fetching: this.#head === undefined ? this.#deps.source.progress : undefined,
      fetchingSinceMs: this.#fetchingSinceMs,
      head: this.#head,
      wanted: this.wanted(),
      doubted: this.#guard.doubted,
      awaited: this.#awaited.missing,
      checking: this.#checking,
      refused: this.#isRefusal ? this.#refused?.hash : undefined,
      problems: failure?.error instanceof CommitRefused ? failure.error.problems : [],
      lastAttemptMs: this.#lastAttemptMs,
      lastSuccessMs: this.#lastSuccessMs,
      lastResult: this.#lastResult,
      error: failure && errorText(failure.error),
      code: failure?.error instanceof SyncError ? failure.error.code : undefined,
      failingSinceMs: failure?.sinceMs,
      warnings: this.#warnings,
    };
  }

  /**
   * Requests a refresh. Resolves when one that began after the call has succeeded or failed (see
   * `status`), or when the tracker stops. Refreshes never overlap; all requests during one share
   * the next.
   */
  refresh(): Promise<void> {
    if (this.#ended) return Promise.resolve();
    const done = new Promise<void>((resolve) => this.#waiting.add(resolve));
    this.#wakeup.set();
    return done;
  }

  /**
   * As {@link refresh}, for at most `ms`, and for a commit as {@link requestRefresh}. Resolves with
   * whether it has ended.
   */
  refreshWithin(ms: number, named?: NamedCommit): Promise<boolean> {
    this.#named(named);
    if (this.#ended) return Promise.resolve(true);
    return new Promise((resolve) => {
      const waiting = this.#waiting;
      const done = (): void => {
        stopTimer();
        resolve(true);
      };
      const stopTimer = startTimer(ms, () => {
        waiting.delete(done);
        resolve(false);
      });
      waiting.add(done);
      this.#wakeup.set();
    });
  }

  /**
   * The same without waiting, in constant space. Works before `run` and during the first fetch. A
   * commit that the source must have by now is looked for until it comes, for a bounded time.
   */
  requestRefresh(named?: NamedCommit): void {
    this.#named(named);
    this.#wakeup.set();
  }

  #named(named: NamedCommit | undefined): void {
    if (named === undefined) return;
    this.#awaited.named(named);
    if (named.hash !== this.#head) this.#deps.gate?.expect(); // while the source is asked for it
  }

  /** Rebuilds the local copy: the served commit could not be read. */
  reportDamage(): void {
    this.#deps.source.distrust();
    this.#wakeup.set();
  }

  /**
   * Follows the source until the signal aborts. Retries a failed refresh with backoff, regardless
   * of the polling interval; does not retry a refused commit until there is another one. Rejects
   * with `config_invalid` if only other settings help.
   */
  async run({ onServed }: TrackerEvents, signal: AbortSignal): Promise<void> {
    this.#onServed = onServed;
    const unwatch = this.#deps.heads.onChange((hash) => {
      this.#guard.agreed(hash, hash === this.#proposed);
      if (hash !== this.#head && hash !== this.#proposed) this.#wakeup.set();
    });
    const unwatchRefused = this.#deps.heads.onRefused((hash) => {
      if (hash !== this.#refused?.hash) this.#wakeup.set();
    });
    try {
      await this.#attempt(signal, () => this.#open(signal));
      for (;;) {
        const asked = this.#waiting;
        this.#waiting = new Set();
        try {
          await this.#attempt(signal, () => this.#fetch(signal));
        } finally {
          for (const resolve of asked) resolve();
        }
        await this.#wakeup.wait(signal, this.#delayMs());
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      unwatch();
      unwatchRefused();
      this.#ended = true;
      for (const resolve of this.#waiting) resolve();
      this.#waiting.clear();
    }
  }

  /** Time until the next refresh; undefined: only on request. */
  #delayMs(): number | undefined {
    const looks = [this.#pollMs, this.#guard.leftMs, this.#awaited.leftMs].filter((ms) => ms !== undefined);
    const pollMs = looks.length === 0 ? undefined : Math.min(...looks);
    // The same commit would be refused again, so wait for the next poll. Without a served commit,
    // retry anyway.
    if (this.#failure === undefined || (this.#isRefusal && this.#head !== undefined)) return pollMs;
    return backoffMs(this.#failure.count, this.#retry);
  }

  get #isRefusal(): boolean {
    return this.#failure !== undefined && this.#failure.error === this.#refused?.error;
  }

  /**
   * Runs `work`, which returns whether it succeeded. Records failures in the status; rethrows only
   * an abort and `config_invalid`.
   */
  async #attempt(signal: AbortSignal, work: () => Promise<boolean>): Promise<void> {
    this.#lastAttemptMs = Date.now();
    const before = this.#head;
    try {
      if (!(await work())) return;
      this.#lastResult = this.#head === before ? 'same' : 'new';
      this.#lastSuccessMs = Date.now();
      this.#failure = undefined;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      this.#failed(error);
      this.#lastResult = 'failed';
      // Only the operator can fix this, and retries would hide it.
      if (error instanceof SyncError && error.code === 'config_invalid') throw error;
    }
  }

  #failed(error: unknown): void {
    const isRepeated = error === this.#failure?.error; // the same refusal, logged once
    const { count, sinceMs } = this.#failure ?? { count: 0, sinceMs: Date.now() };
    this.#failure = { error, count: count + 1, sinceMs };
    if (isRepeated) return;
    const { error: text, ...known } = failureFields(error);
    const level = count < WARNINGS ? 'warn' : 'error';
    const place = error instanceof CommitRefused ? error.place : undefined;
    const fields = { ...known, ...place, failures: count + 1, serving: this.#head };
    this.#deps.log[level](fields, `policy source: ${text}`);
  }

  /** Serves the head of an earlier run. Returns false if there is none. */
  async #open(signal: AbortSignal): Promise<boolean> {
    const { source, heads } = this.#deps;
    const left = await source.open(signal);
    if (left === undefined) return false;
    const seen = heads.look();
    if (seen.head === undefined) {
      await this.#serve(left, signal);
      await this.#propose(left, seen);
    } else if (seen.head.hash === left || !(await this.#tryAgreed(signal))) await this.#serve(left, signal);
    return true;
  }

  /** Fetches, proposes a new commit, and serves the agreed one. */
  async #fetch(signal: AbortSignal): Promise<true> {
    const { heads } = this.#deps;
    await this.#tryAgreed(signal); // a commit in the local copy does not wait for the source
    const seen = heads.look(); // before the fetch: the source already had the commit agreed on by now (design D24)
    const hash = await this.#look(signal);
    this.#guard.shows(hash, seen);
    if (hash !== this.#head && hash !== this.#refused?.hash) {
      if (hash !== seen.head?.hash) this.#deps.gate?.expect();
      this.#comesAgain(hash);
      this.#reached(hash, 'found');
    }
    try {
      if (hash !== seen.head?.hash && (await this.#isNews(hash, seen))) await this.#takeNew(hash, seen, signal);
    } finally {
      if (!signal.aborted) await this.#serveAgreed(signal);
    }
    const agreed = heads.look().head?.hash;
    if (agreed === undefined || agreed === this.#head) return true;
    const text = `commit ${agreed}, which the server instances agreed on, is not at the policy source yet (it shows ${hash})`;
    throw new SyncError('policy_not_ready', text, { retryable: true });
  }

  /** Asks the source for its head. */
  async #look(signal: AbortSignal): Promise<string> {
    this.#fetchingSinceMs = Date.now();
    this.#awaited.begin();
    let shown: string;
    try {
      shown = await this.#deps.source.fetch(signal);
    } finally {
      this.#fetchingSinceMs = undefined;
    }
    await this.#compareNamed(shown);
    return shown;
  }

  /** Compares what the source shows with what a webhook named. */
  async #compareNamed(shown: string): Promise<void> {
    const { source, log } = this.#deps;
    const result = await this.#awaited.looked(shown, (hash) => source.has(hash));
    if (result === undefined) return;
    const fields = { commit: result.hash, shown };
    if (result.what === 'came') log.info(fields, 'the policy source shows the commit that a webhook named');
    else if (result.what === 'missed') {
      log.info(fields, 'the policy source does not show the commit yet that a webhook named: it is asked again');
    } else log.warn(fields, NEVER_CAME);
  }

  async #isNews(hash: string, seen: SeenHead): Promise<boolean> {
    const { source, heads, log } = this.#deps;
    const agreed = seen.head;
    if (agreed === undefined || !heads.isShared) return true;
    const [isSuccessor, isAgreedHere] = await Promise.all([
      source.isSuccessor(hash, agreed.hash, agreed.earlier),
      source.has(agreed.hash),
    ]);
    const before = this.#guard.doubted;
    const isNews = this.#guard.isNews(hash, seen, { isSuccessor, isAgreedHere });
    if (!isNews && before !== hash) {
      const fields = { hash, agreed: agreed.hash, wait_ms: Math.round(this.#guard.leftMs ?? 0) };
      log.warn(fields, 'the policy source shows a commit that may be older than the one that is served');
    }
    return isNews;
  }

  /** Checks a new commit, proposes it to the other instances and serves it. */
  async #takeNew(hash: string, seen: SeenHead, signal: AbortSignal): Promise<void> {
    const passed = hash === this.#head ? undefined : await this.#check(hash, seen, signal);
    signal.throwIfAborted();
    if (passed !== undefined) this.#reached(hash, 'checked');
    if ((await this.#propose(hash, seen, passed?.verdict)) && passed !== undefined) {
      await this.#serve(hash, signal, passed);
    }
  }

  /** Reviews a commit, and asks the gate. Throws if it is not to be served. */
  async #check(hash: string, seen: SeenHead, signal: AbortSignal): Promise<Passed> {
    if (this.#refused?.hash === hash) {
      await this.#shareRefusal(seen);
      throw this.#refused.error;
    }
    const reviewed = await this.#review(hash, signal);
    this.#checking = hash;
    try {
      return { reviewed, ...(await this.#askGate(hash, seen, signal)) };
    } finally {
      this.#checking = undefined;
    }
  }

  async #askGate(hash: string, seen: SeenHead, signal: AbortSignal): Promise<Omit<Passed, 'reviewed'>> {
    const { gate, heads } = this.#deps;
    if (gate === undefined) return { verdict: undefined, unsure: undefined };
    const told = heads.verdictOn(hash);
    const known = told?.judge === gate.judge ? told.problems : undefined;
    const { step, problems, error } = await gate.decide(hash, known, signal);
    signal.throwIfAborted();
    const verdict = problems.length === 0 ? undefined : { hash, judge: gate.judge, problems };
    switch (step) {
      case 'serve':
      case 'serve_noted':
        return { verdict, unsure: error?.message };
      case 'refuse': {
        const refusal = refusedByGate(hash, problems);
        this.#refuse(hash, refusal, verdict);
        await this.#shareRefusal(seen);
        throw refusal;
      }
      case 'wait':
        throw error;
    }
  }

  /** Lets the other instances know of a refusal of the gate, unless they do. */
  async #shareRefusal(seen: SeenHead): Promise<void> {
    const { heads, log } = this.#deps;
    const verdict = this.#refused?.verdict;
    if (verdict === undefined || heads.verdictOn(verdict.hash)?.judge === verdict.judge) return;
    try {
      await heads.refuse(verdict, seen);
    } catch (error) {
      // The next look tries again; until then the others check the commit themselves.
      if (error instanceof SyncError && error.code === 'log_conflict') this.#wakeup.set();
      else log.warn({ hash: verdict.hash, ...failureFields(error) }, 'a refused policy commit could not be announced');
    }
  }

  #refuse(hash: string, error: CommitRefused, verdict?: SharedVerdict): void {
    this.#refused = { hash, error, ...(verdict !== undefined && { verdict }) };
    const { reason, code, place } = error;
    this.#deps.times?.failed(hash, 'refused', Date.now(), { message: reason, code, ...place });
  }

  /** Makes a commit the agreed head. Returns false if another instance was faster. */
  async #propose(hash: string, seen: SeenHead, verdict?: SharedVerdict): Promise<boolean> {
    this.#proposed = hash;
    try {
      await this.#deps.heads.propose(hash, seen, undefined, verdict);
      this.#guard.agreed(hash, true);
      this.#reached(hash, 'agreed');
      return true;
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'log_conflict') throw error;
      // The next refresh decides, with the new agreed head, whether the commit is still new.
      this.#deps.log.debug({ hash }, 'another server instance proposed a policy commit first');
      this.#wakeup.set();
      return false;
    } finally {
      this.#proposed = undefined;
    }
  }

  /** Serves the agreed head if the local copy has it. Returns whether it is served. */
  async #serveAgreed(signal: AbortSignal): Promise<boolean> {
    const hash = this.#deps.heads.look().head?.hash;
    if (hash === undefined) return false;
    if (hash === this.#head) return true;
    if (!(await this.#deps.source.has(hash))) return false;
    await this.#serve(hash, signal);
    return true;
  }

  /**
   * {@link #serveAgreed} at the start of a refresh. Ignores failures: the end of the refresh
   * reports them if they persist.
   */
  async #tryAgreed(signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#serveAgreed(signal);
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    }
  }

  async #serve(hash: string, signal: AbortSignal, passed?: Passed): Promise<void> {
    const { changedDirectories, warnings } = passed?.reviewed ?? (await this.#review(hash, signal));
    this.#reached(hash, 'checked');
    const previous = this.#head;
    await this.#deps.source.markServed(hash);
    this.#head = hash;
    this.#warnings = [...this.#notes(hash, passed?.unsure), ...warnings];
    this.#refused = undefined;
    if (hash !== previous) this.#comesAgain(hash);
    this.#reached(hash, 'served');
    this.#deps.log.info({ hash, old_hash: previous, directories: changedDirectories.length }, 'policy commit served');
    this.#onServed({ oldHash: previous ?? hash, hash, changedDirectories });
  }

  /** What the gate says of a commit that is served all the same. */
  #notes(hash: string, unsure: string | undefined): string[] {
    const found = this.#deps.heads.verdictOn(hash)?.problems.map(commitProblemText) ?? [];
    const notes = [...(unsure === undefined ? [] : [unsure]), ...found];
    for (const text of notes) this.#deps.log.warn({ hash }, `policy commit served in spite of the gate: ${text}`);
    return notes;
  }

  /**
   * A commit that was served before comes as a new one: what clients said of it then says nothing
   * of now.
   */
  #comesAgain(hash: string): void {
    const { times } = this.#deps;
    if (times?.get(hash)?.stages.served !== undefined) times.forget(hash);
  }

  #reached(hash: string, stage: CommitStage): void {
    this.#deps.times?.reached(hash, stage, Date.now());
  }

  async #review(hash: string, signal: AbortSignal): Promise<Reviewed> {
    if (this.#refused?.hash === hash && this.#refused.verdict === undefined) throw this.#refused.error;
    try {
      const reviewed = await this.#deps.review.review(hash, this.#head);
      signal.throwIfAborted();
      return reviewed;
    } catch (error) {
      if (error instanceof CommitRefused) this.#refuse(hash, error);
      if (isDamage(error)) this.#deps.source.distrust();
      throw error;
    }
  }
}
