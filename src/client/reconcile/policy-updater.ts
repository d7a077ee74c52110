import { isDeepStrictEqual } from 'node:util';
import { EngineRefusal, engineProblemText } from '../../embedded/vocabulary.js';
import { type ErrorCode, errorText, failureFields, SyncError } from '../../lib/errors.js';
import { jsonOrUndefined } from '../../lib/json/json-text.js';
import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, Wakeup } from '../../lib/run/async.js';
import { RetryLoop } from '../../lib/run/retry-loop.js';
import { type PolicyBundle, policyNotice } from '../../wire/bundle.js';
import { docPathText } from '../../wire/doc-path.js';
import type { Layer } from '../desired/layers.js';
import {
  changedFiles,
  checkPackages,
  mergeBundle,
  type PolicyContent,
  staticLayers,
} from '../desired/policy-content.js';
import type { PolicyProblem } from '../status/policy-state.js';
import type { Status } from '../status/status.js';
import type { Applier } from './applier.js';
import type { WithDocuments } from './entry-writer.js';

/** Logged when others have added, changed or removed modules in the engine. */
const STRAYS_FOUND = 'modules in the engine were not those of the policy: restored';

/** Logged when the first policy has waited for its documents as long as it may. */
const FIRST_WITHOUT =
  'the first policy becomes active without all documents of the first load: the client is not ready; see SYNC_FIRST_POLICY_WAIT';

/** Problems of a refusal that are named. */
const SHOWN_PROBLEMS = 5;
/** How many missing directories, or documents, a line of the log names. */
const NAMED_MISSING = 20;

/** Options of {@link PolicyUpdater}. */
export interface PolicyUpdaterOptions {
  readonly backoff: BackoffOptions;
  /** Longest time that the first policy waits for the documents of the first load. */
  readonly firstWaitMs: number;
}

/** What the policy updater works with. */
export interface PolicyUpdaterDeps {
  readonly applier: Applier;
  readonly exclusive: <T>(step: (signal: AbortSignal) => Promise<T>) => Promise<T>;
  /** Asks the server for the bundle; without a base for the complete one. */
  readonly fetchBundle: (baseHash: string | undefined, signal: AbortSignal) => Promise<PolicyBundle>;
  /** Runs a step with the documents that have arrived, which the first policy brings with it. */
  readonly withDocuments: WithDocuments;
  /**
   * Called after each policy that was applied, and with `''` where none will come: withheld
   * documents may have changed.
   */
  readonly onApplied: (hash: string) => void;
  readonly status: Status;
  readonly log: Logger;
}

/**
 * Keeps the engine's policy at the head of the policy source. The base of a delta is what the
 * engine HOLDS, so no delta builds upon a refused bundle. A refused bundle waits for the next
 * commit; everything else is retried.
 */
export class PolicyUpdater {
  readonly #deps: PolicyUpdaterDeps;
  readonly #firstWaitMs: number;
  readonly #loop: RetryLoop;
  readonly #statusChanged = new Wakeup();
  /** When the first policy waits no longer for documents. */
  #firstDeadline: number | undefined;
  #isWaiting = false;
  #held: PolicyContent | undefined;
  #refused: { hash: string; reason: string; place: PolicyProblem } | undefined;
  /** Subscribed directories that the last bundle says its commit does not have. */
  #missing: readonly string[] = [];
  /** The engine may have modules that are not ours. */
  #isUntidy = false;
  /** The engine refused to restore them. */
  #tidyFailed = false;
  /** Requests for the complete bundle, and how many of them a successful update has served. */
  #completeAsked = 0;
  #completeServed = 0;
  /** The server has said that it is not ready. */
  #isServerLate = false;
  /**
   * The complete bundle is taken only if the server says that its commit may follow the one that is
   * held.
   */
  #isChecked = false;

  constructor({ backoff, firstWaitMs }: PolicyUpdaterOptions, deps: PolicyUpdaterDeps) {
    this.#deps = deps;
    this.#firstWaitMs = firstWaitMs;
    this.#loop = new RetryLoop('updating policy', backoff, deps.log, async (signal) => {
      await this.#update(signal);
      if (this.#isUntidy) await this.#tidy();
    });
    deps.status.watch(() => this.#statusChanged.set());
  }

  /** Commit hash that the engine holds; undefined where it has none, or one that is not known. */
  get hash(): string | undefined {
    return this.#held?.hash === '' ? undefined : this.#held?.hash;
  }

  /** All that the engine holds of the policy repository. */
  get held(): PolicyContent | undefined {
    return this.#held;
  }

  /**
   * Takes over the policy that a backup has put into the engine. `isBase`: the next delta may build
   * upon it; false if it was made for other directories, or by a program that does not name the
   * commit.
   */
  adopt(content: PolicyContent, isBase: boolean): void {
    this.#held = content;
    this.#deps.status.policyHeld(content.hash);
    if (!isBase) this.#completeAsked++;
  }

  /**
   * The next request asks for the complete bundle, and compares it with what is held (specification
   * connectivity.enable).
   */
  wantComplete(): void {
    this.#completeAsked++;
  }

  /** Asks for the complete bundle now; see {@link wantComplete}. */
  requestComplete(): void {
    this.wantComplete();
    this.request();
  }

  /** {@link requestComplete}, and a refused commit is tried again, too. */
  refetch(): void {
    this.#isChecked = false;
    this.#tryAgain();
  }

  /**
   * {@link refetch}, where the server may be one that is behind: its commit is taken only if it may
   * follow the one that is held, as in every other request.
   */
  recheck(): void {
    this.#isChecked = true;
    this.#tryAgain();
  }

  #tryAgain(): void {
    this.#refused = undefined;
    this.requestComplete();
  }

  /** The first policy is here, and waits for documents of the first load. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** True when nothing is under way: the engine holds the last bundle, or refused it. */
  get settled(): boolean {
    return this.#loop.idle;
  }

  /**
   * Takes a policy notice, in either form. One that names what the engine holds asks for nothing,
   * unless another commit was refused since; one that cannot be read may mean anything, so the
   * server is asked.
   */
  notified(dataText: string): void {
    const notice = policyNotice.safeParse(jsonOrUndefined(dataText));
    const hash = typeof notice.data === 'string' ? notice.data : notice.data?.new_policy_hash;
    if (hash !== undefined) this.#deps.status.policyWanted(hash);
    // While an update is under way, what is held is about to change: the branch may have come back
    // to it since.
    if (hash !== undefined && this.#isHeld(hash) && this.#loop.idle) return;
    // A server that had no commit, or not this one, asked for time: it has one now.
    if (this.#isServerLate) this.#loop.isReady();
    else this.request();
  }

  /**
   * The server's newest commit, as its heartbeat says: asks for it unless it is held, refused, or
   * under way.
   */
  headIs(hash: string | null): void {
    if (hash !== null) this.#deps.status.policyWanted(hash);
    if (hash === null || this.#isHeld(hash) || hash === this.#refused?.hash || !this.#loop.idle) return;
    this.#deps.log.info(
      { hash, held: this.#held?.hash ?? null },
      'a policy notice may have been lost: asking the server',
    );
    this.request();
  }

  /**
   * The engine holds this commit, and none was refused since: where one was, the server has gone
   * back, and all is well again.
   */
  #isHeld(hash: string): boolean {
    return hash === this.#held?.hash && this.#refused === undefined;
  }

  /** There may be a newer policy: the connection is new, or a notice came. */
  request(): void {
    this.#loop.request();
  }

  /** The engine accepts writes again: retries now. */
  engineBack(): void {
    this.#loop.nudge();
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#loop.run(signal);
  }

  async #update(signal: AbortSignal): Promise<void> {
    const { status, log } = this.#deps;
    const startedMs = Date.now();
    const asked = this.#completeAsked;
    let content: PolicyContent | undefined;
    try {
      const isComplete = asked > this.#completeServed;
      this.#isUntidy ||= isComplete;
      this.#isServerLate = false;
      content = await this.#nextContent(isComplete, signal);
      if (content === undefined) {
        if (this.#refused === undefined) this.#completeServed = asked;
        return;
      }
      if (this.#held !== undefined && sameContent(this.#held, content)) {
        await this.#rename(this.#held, content.hash, startedMs);
        this.#completeServed = asked;
        return;
      }
      const { modules, hash } = content;
      checkPackages(content, this.#held);
      const statics: Layer[] = staticLayers(content);
      await this.#awaitDocuments(hash, signal);
      const { applier, exclusive, withDocuments } = this.#deps;
      await exclusive((step) =>
        withDocuments((documents) => applier.applyPolicy({ hash, modules }, statics, step, documents)),
      );
    } catch (error) {
      if (signal.aborted) throw error;
      const id = content?.hash ?? this.#held?.hash ?? '';
      const refused = error instanceof EngineRefusal || hasCode(error, 'engine_refused');
      this.#isServerLate = hasCode(error, 'policy_not_ready');
      if (hasCode(error, 'policy_source_none') && this.#deps.applier.held.expectNoPolicy()) this.#deps.onApplied('');
      // A server that is away or starts knows no newer policy: the one in the engine stays the
      // latest.
      if (this.#held !== undefined && isServerAway(error)) throw error;
      const reason = (error instanceof EngineRefusal ? describe(error) : '') || errorText(error);
      const place = placeOf(error);
      status.policyResult(id, reason, place);
      status.recent.policy({ id, outcome: refused ? 'refused' : 'failing', startedMs, error: reason });
      if (!refused) throw error;
      this.#refused = { hash: id, reason, place };
      log.error(
        {
          hash: id,
          held: this.#held?.hash ?? null,
          duration_ms: Date.now() - startedMs,
          outcome: 'refused',
          ...failureFields(new SyncError('engine_refused', reason)),
        },
        this.#held === undefined
          ? 'policy refused: there is no good one yet, and documents wait for it'
          : 'policy refused: the last good one keeps serving',
      );
      return;
    }
    const wrote = changedFiles(this.#held, content);
    this.#held = content;
    this.#completeServed = asked;
    this.#refused = undefined;
    status.policyResult(content.hash, '');
    this.#tellMissing();
    status.recent.policy({ id: content.hash, outcome: 'applied', startedMs, wrote });
    log.info(
      {
        hash: content.hash,
        modules: content.modules.size,
        data_files: content.data.length,
        duration_ms: Date.now() - startedMs,
        outcome: 'applied',
      },
      'policy applied',
    );
    this.#isUntidy ||= this.#deps.applier.held.mayHaveStrays.afterCommit;
    this.#deps.onApplied(content.hash);
  }

  /**
   * Until the first policy is active nothing is decided: it comes with the documents of the first
   * load, so that no rule decides without them. A source that is down does not keep it out for
   * ever; the client is not ready then.
   */
  async #awaitDocuments(hash: string, signal: AbortSignal): Promise<void> {
    const { applier, status, log } = this.#deps;
    if (applier.held.takesDocuments) return;
    this.#firstDeadline ??= performance.now() + this.#firstWaitMs;
    this.#isWaiting = true;
    try {
      while (!status.documentsAreHere) {
        const leftMs = this.#firstDeadline - performance.now();
        if (leftMs <= 0) {
          const missing = status.missingDocuments.slice(0, NAMED_MISSING).map(({ path }) => docPathText(path));
          log.warn({ hash, waited_ms: this.#firstWaitMs, missing }, FIRST_WITHOUT);
          return;
        }
        await this.#statusChanged.wait(signal, leftMs);
      }
    } finally {
      this.#isWaiting = false;
    }
  }

  /**
   * The engine holds what the server has. After a failure, or another commit that was refused, that
   * is news: all is well again.
   */
  #isHeldAgain(hash: string): void {
    const { status, log } = this.#deps;
    const refused = this.#refused?.hash;
    this.#refused = undefined;
    if (refused !== undefined) {
      status.recent.policy({ id: hash, outcome: 'unchanged', startedMs: Date.now() });
      log.info({ hash, refused, outcome: 'unchanged' }, 'the server has gone back to the commit that the engine holds');
    }
    status.policyResult(hash, '');
    this.#tellMissing();
  }

  /**
   * A directory that is not there counts as empty. Most often its name is wrong, or its last file
   * has gone: somebody should know.
   */
  #tellMissing(): void {
    const { status, log } = this.#deps;
    const missing = this.#missing;
    if (!status.policyLacks(missing)) return;
    const line = { hash: this.#held?.hash ?? null, missing: missing.slice(0, NAMED_MISSING) };
    if (missing.length === 0) log.info(line, 'all subscribed directories are in the policy repository again');
    else log.warn(line, 'subscribed directories are not in the policy repository: they count as empty');
  }

  /** Another commit has the same policy: what the engine holds is of that commit now. */
  async #rename(held: PolicyContent, hash: string, startedMs: number): Promise<void> {
    const { applier, exclusive, status, log } = this.#deps;
    const { modules } = held;
    await exclusive(async () => applier.held.rename({ hash, modules }));
    this.#held = { ...held, hash };
    this.#refused = undefined;
    status.policyResult(hash, '');
    this.#tellMissing();
    status.recent.policy({ id: hash, outcome: 'unchanged', startedMs });
    log.info({ hash, outcome: 'unchanged' }, 'this commit changes no policy: the engine holds it');
    this.#isUntidy ||= applier.held.mayHaveStrays.always;
    this.#deps.onApplied(hash);
  }

  /** Removes foreign modules, after the policy was applied and reported. */
  async #tidy(): Promise<void> {
    const { applier, exclusive, status, log } = this.#deps;
    const hash = this.#held?.hash ?? '';
    try {
      const found = await exclusive((step) => applier.held.tidy(step));
      if (found.length > 0) log.warn({ modules: found.slice(0, 20) }, STRAYS_FOUND);
    } catch (error) {
      // Foreign modules take part in decisions: that is no good state, even if the policy was
      // applied.
      if (error instanceof EngineRefusal) {
        this.#tidyFailed = true;
        status.policyResult(hash, describe(error), placeOf(error));
      }
      throw error;
    }
    this.#isUntidy = false;
    if (!this.#tidyFailed) return;
    this.#tidyFailed = false;
    if (this.#refused === undefined) status.policyResult(hash, '');
    else status.policyResult(this.#refused.hash, this.#refused.reason, this.#refused.place);
  }

  async #fetch(isComplete: boolean, signal: AbortSignal): Promise<PolicyBundle> {
    const { fetchBundle } = this.#deps;
    const base = this.#held?.hash;
    if (!isComplete) return await fetchBundle(base, signal);
    if (!this.#isChecked || base === undefined || base === '') return await fetchBundle(undefined, signal);
    // A request that names what is held is one that a server behind it refuses.
    const next = await fetchBundle(base, signal);
    const complete = await fetchBundle(undefined, signal);
    if (complete.hash !== next.hash) {
      const text = `the server answered with commit ${next.hash} and then with ${complete.hash}`;
      throw new SyncError('policy_not_ready', text, { retryable: true });
    }
    this.#isChecked = false;
    return complete;
  }

  /** The content to apply; undefined when the engine holds it, or refused it, already. */
  async #nextContent(isComplete: boolean, signal: AbortSignal): Promise<PolicyContent | undefined> {
    const bundle = await this.#fetch(isComplete, signal);
    this.#missing = bundle.missing_directories ?? [];
    if (bundle.hash === this.#held?.hash && (!isComplete || hasContent(this.#held, bundle))) {
      this.#isHeldAgain(bundle.hash);
      return undefined;
    }
    if (bundle.hash === this.#refused?.hash) {
      this.#deps.status.policyResult(bundle.hash, this.#refused.reason, this.#refused.place);
      return undefined;
    }
    const merged = mergeBundle(this.#held, bundle);
    if (merged !== undefined) return merged;
    const complete = await this.#deps.fetchBundle(undefined, signal);
    const content = mergeBundle(undefined, complete);
    if (content === undefined)
      throw new SyncError('server_refused', 'the server answered a delta where the complete bundle was asked for', {
        retryable: true,
      });
    return content;
  }
}

/**
 * True when a complete bundle has exactly what is held: one of the same commit may be for other
 * directories.
 */
function hasContent(held: PolicyContent, bundle: PolicyBundle): boolean {
  const fresh = mergeBundle(undefined, bundle);
  return fresh !== undefined && sameContent(held, fresh);
}

/** True when two commits amount to the same policy. */
function sameContent(held: PolicyContent, fresh: PolicyContent): boolean {
  const all = ({ hash: _, modules, ...more }: PolicyContent): object => ({ ...more, modules: [...modules] });
  return isDeepStrictEqual(all(held), all(fresh));
}

/** Codes of a server that cannot be asked. */
const AWAY: ReadonlySet<string> = new Set([
  ...['server_unreachable', 'tls_failed', 'tls_mismatch', 'policy_not_ready', 'policy_source_none'],
]);

function hasCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof SyncError && error.code === code;
}

function isServerAway(error: unknown): boolean {
  return error instanceof SyncError && AWAY.has(error.code);
}

/**
 * The first place that the engine names, and what is wrong, which begins with what is wrong there.
 */
function placeOf(error: unknown): PolicyProblem {
  if (!(error instanceof EngineRefusal)) return {};
  const { problems } = error;
  const first = problems.find(({ file }) => file !== undefined);
  if (first === undefined) return {};
  const others = problems.filter((one) => one !== first).map(engineProblemText);
  const { file, row, message } = first;
  return { file, row, message: joined([message, ...others]) };
}

function describe({ problems, message }: EngineRefusal): string {
  return problems.length === 0 ? message : joined(problems.map(engineProblemText));
}

/** Texts of problems one after the other, without those that are too many. */
function joined(texts: readonly string[]): string {
  const more = texts.length - SHOWN_PROBLEMS;
  return texts.slice(0, SHOWN_PROBLEMS).join('; ') + (more > 0 ? `; and ${more} more` : '');
}
