import { errorText, failureFields, firstIssue } from '../../lib/errors.js';
import { type Logger, logLevelsOf } from '../../lib/observe/log.js';
import type { LogLevels } from '../../lib/observe/log-levels.js';
import { firstOf, sleep } from '../../lib/run/async.js';
import { packageVersion } from '../../lib/run/version.js';
import type { MethodCall } from '../../pubsub/link.js';
import {
  ANSWER_METHOD,
  type AnswerArguments,
  type Ask,
  type AskAnswer,
  ask,
  boundedAnswer,
  fittingDetails,
  MAX_ORPHANED,
} from '../../wire/client-ask.js';
import type { ClientDetails } from '../../wire/client-details.js';
import { docPathText } from '../../wire/doc-path.js';
import { ASK_KINDS, type AskKind } from '../../wire/session.js';
import type { DriftCheck } from '../drift/drift-check.js';
import type { RunningEngine } from '../engine/opa/running-engine.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';
import type { RecentTransactions } from '../status/recent-transactions.js';

/** What {@link AskedActions} is made with. */
interface AskedOptions {
  /** SYNC_CLIENT_REMOTE_ACTIONS; false: it tells of itself, and does nothing. */
  readonly mayAct: boolean;
  readonly policyEnabled: boolean;
  readonly dataEnabled: boolean;
}

/** The parts that an ask reaches: those that the triggers of the client API reach. */
interface AskedDeps {
  readonly policy: Pick<PolicyUpdater, 'recheck'>;
  readonly data: Pick<DataUpdater, 'refresh' | 'revalidate' | 'prune'>;
  /** Undefined where it is off. */
  readonly drift: Pick<DriftCheck, 'check' | 'state'> | undefined;
  /** Undefined where the program that runs this client writes the log. */
  readonly levels: Pick<LogLevels, 'change'> | undefined;
  readonly details: () => ClientDetails;
  readonly log: Logger;
}

/** What became of an ask. */
type Outcome = Pick<AskAnswer, 'done' | 'text'> & { readonly details?: ClientDetails };

/**
 * Longest wait for what an ask began; then the answer says that it is under way. The server waits
 * longer.
 */
const SOON_MS = 6000;
/** Longest wait for the server to take an answer. */
const TAKE_MS = 10_000;
/** Asks that are under way at a time, whatever the server asks. */
const MAX_OPEN = 10;
const NAMED_PATHS = 10;

/** Why a client cannot do what it is asked for, as it is set up. */
const ALL_OFF = 'policy and data are off at this client';
const DRIFT_OFF = 'the drift check is off at this client: set SYNC_DRIFT_CHECK_INTERVAL';
const NOT_ITS_LOG = 'the log is written by the program that runs this client: set it there';

/**
 * Does what the server asks over the socket: the kinds of {@link ASK_KINDS}, each one at a time,
 * and nothing else. Every ask is answered with a call of {@link ANSWER_METHOD}.
 */
export class AskedActions {
  /** What this client can be asked, for its `subscribe`. */
  readonly kinds: readonly AskKind[];
  readonly #options: AskedOptions;
  readonly #deps: AskedDeps;
  readonly #underWay = new Set<AskKind>();
  #open = 0;

  constructor(options: AskedOptions, deps: AskedDeps) {
    this.#options = options;
    this.#deps = deps;
    this.kinds = options.mayAct ? ASK_KINDS : ['details'];
  }

  /** Takes the arguments of an ask; the answer follows over the same connection. */
  take(args: unknown, call: MethodCall): void {
    const { log } = this.#deps;
    const parsed = ask.safeParse(args);
    if (!parsed.success) {
      log.debug({ error: firstIssue(parsed.error) }, 'the server asks for something that this client does not know');
      return;
    }
    if (this.#open >= MAX_OPEN) return;
    this.#open++;
    this.#answer(parsed.data, call)
      .catch((error: unknown) => log.debug({ error: errorText(error) }, 'the server did not take an answer'))
      .finally(() => {
        this.#open--;
      });
  }

  async #answer(asked: Ask, call: MethodCall): Promise<void> {
    const { done, text, details } = await this.#carryOut(asked);
    const answer: AnswerArguments = {
      id: asked.id,
      done,
      text: boundedAnswer(text),
      ...(details !== undefined && { details: fittingDetails(details) }),
    };
    await call(ANSWER_METHOD, answer, TAKE_MS);
  }

  async #carryOut(asked: Ask): Promise<Outcome> {
    const { kind } = asked;
    if (!this.kinds.includes(kind)) {
      return notDone('SYNC_CLIENT_REMOTE_ACTIONS is false at this client: nobody may ask it to act');
    }
    if (this.#underWay.has(kind)) return notDone('the same is under way already');
    this.#underWay.add(kind);
    try {
      return await this.#run(asked);
    } catch (error) {
      this.#deps.log.warn({ action: kind, ...failureFields(error) }, 'what the server asked for failed');
      return notDone(errorText(error));
    } finally {
      this.#underWay.delete(kind);
    }
  }

  async #run(asked: Ask): Promise<Outcome> {
    const { details, log } = this.#deps;
    if (asked.kind === 'details') return { done: true, text: '', details: { ...details(), cannot: this.#cannot() } };
    log.warn({ action: asked.kind, ...('level' in asked && { to: asked.level }) }, 'asked by the server to act');
    switch (asked.kind) {
      case 'refresh':
        return this.#refresh();
      case 'prune':
        return this.#prune();
      case 'drift_check':
        return this.#driftCheck();
      case 'log_level':
        return this.#logLevel(asked.level);
    }
  }

  #cannot(): Partial<Record<AskKind, string>> {
    const { policyEnabled, dataEnabled } = this.#options;
    const { drift, levels } = this.#deps;
    return {
      ...(!policyEnabled && !dataEnabled && { refresh: ALL_OFF }),
      ...(drift === undefined && { drift_check: DRIFT_OFF }),
      ...(levels === undefined && { log_level: NOT_ITS_LOG }),
    };
  }

  async #refresh(): Promise<Outcome> {
    const { policyEnabled, dataEnabled } = this.#options;
    const { policy, data } = this.#deps;
    const texts: string[] = [];
    if (policyEnabled) {
      policy.recheck();
      texts.push('fetches the complete policy again');
    }
    if (dataEnabled) {
      data.revalidate(false); // what came by updates; what the configuration lists is asked for once that is read
      const isRead = await soon(data.refresh());
      texts.push(
        `${isRead ? 'has read' : 'reads'} the data configuration again, and asks each source for its document`,
      );
    }
    return texts.length > 0 ? done(texts.join('; ')) : notDone(ALL_OFF);
  }

  async #prune(): Promise<Outcome> {
    const removed = (await this.#deps.data.prune()).map(({ path }) => docPathText(path));
    if (removed.length === 0) return done('there was nothing to remove');
    const named = removed.slice(0, NAMED_PATHS).join(', ');
    const more = removed.length > NAMED_PATHS ? ', ...' : '';
    return done(`removed ${removed.length} document${removed.length === 1 ? '' : 's'}: ${named}${more}`);
  }

  async #driftCheck(): Promise<Outcome> {
    const { drift } = this.#deps;
    if (drift === undefined) return notDone(DRIFT_OFF);
    const before = drift.state.repaired;
    const checking = drift.check();
    if (!(await soon(checking))) return done('compares its engine with what it wrote');
    const { documents, repaired, error } = await checking;
    if (error !== undefined) return notDone(error);
    const found = repaired - before;
    const compared = `compared ${documents} document${documents === 1 ? '' : 's'} and the modules with the engine`;
    return done(`${compared}: ${found === 0 ? 'nothing differed' : `repaired ${found}`}`);
  }

  #logLevel(level: Extract<Ask, { kind: 'log_level' }>['level']): Outcome {
    const { levels } = this.#deps;
    if (levels === undefined) return notDone(NOT_ITS_LOG);
    levels.change({ level });
    return done(`logs with level ${level} until its next start`);
  }
}

function done(text: string): Outcome {
  return { done: true, text };
}

function notDone(text: string): Outcome {
  return { done: false, text };
}

/**
 * Whether work ends within {@link SOON_MS}; rejects as it does. Work that takes longer goes on, and
 * its end is nobody's concern here.
 */
async function soon(work: Promise<unknown>): Promise<boolean> {
  const late = new AbortController();
  try {
    return await firstOf([
      work.then(() => true),
      sleep(SOON_MS, late.signal).then(
        () => false,
        () => false,
      ),
    ]);
  } finally {
    late.abort();
  }
}

/** The parts that the details are read from. */
interface OwnDetailsDeps {
  readonly startedMs: number;
  readonly data: Pick<DataUpdater, 'orphans'>;
  readonly engine: Pick<RunningEngine, 'rego'>;
  /** Undefined where it is off. */
  readonly drift: Pick<DriftCheck, 'state'> | undefined;
  readonly recent: Pick<RecentTransactions, 'list'>;
  readonly log: Logger;
}

/** What this client tells of itself when it is asked, beyond its reports. */
export function ownDetails({ startedMs, data, engine, drift, recent, log }: OwnDetailsDeps): ClientDetails {
  const { orphans } = data;
  const state = drift?.state;
  return {
    now: Date.now(),
    version: packageVersion(),
    log_level: logLevelsOf(log)?.view().level ?? 'of the program that runs it',
    started_at: startedMs,
    orphaned: orphans.slice(0, MAX_ORPHANED).map(({ path, origin }) => ({
      path: boundedAnswer(docPathText(path)),
      reason:
        origin === 'base'
          ? 'the data configuration does not list it any more'
          : 'it is of an update log that is not followed any more',
      since: null,
    })),
    orphaned_total: orphans.length,
    transactions: recent.list(),
    rego: engine.rego() ?? null,
    drift:
      state === undefined
        ? null
        : { checked_at: state.checkedMs ?? null, repaired: state.repaired, error: state.error ?? null },
  };
}
