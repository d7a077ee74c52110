import { randomUUID } from 'node:crypto';
import type { EngineAnswer, EngineQuestion } from '../../embedded/vocabulary.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import { MANY_JSON_VALUES, parseJson } from '../../lib/json/json.js';
import type { Logger } from '../../lib/observe/log.js';
import { startTimer } from '../../lib/run/async.js';
import { aNumber, type PartRulesOf } from '../../lib/settings/given-parts.js';
import type { DocPath } from '../../wire/doc-path.js';
import { appliedUpTo } from '../../wire/session.js';
import type { DecisionEngine } from '../engine/decision-engine.js';
import type { RunningEngine } from '../engine/opa/running-engine.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { EngineCopy } from '../reconcile/engine-copy.js';
import type { EngineKeeper } from '../reconcile/engine-keeper.js';
import type { DataEvents } from '../status/data-events.js';
import type { Status } from '../status/status.js';
import { ChangeFeed } from './change-feed.js';
import type {
  DecideOptions,
  Decider,
  Decision,
  DecisionChange,
  DecisionDefaults,
  DecisionPosition,
  DecisionQuestion,
  OnUnavailable,
} from './decision.js';
import { Questions } from './question.js';

const WAIT_MS = 5_000;
const LAST_ANSWERS = 1_000;
const LAST_MAX_AGE_MS = 15 * 60_000;

/** A client that has been started, as its decisions see it. */
export interface DecidingClient {
  readonly engine: DecisionEngine;
  /** Whether policy and data were there once. */
  readonly isReady: () => boolean;
  /** Whether the engine holds the state of this client, as far as the client knows. */
  readonly isFilled: () => boolean;
  /** Why it is not, or why the engine does not respond, for people. */
  readonly reason: () => string | undefined;
  /** Hash of the policy that the engine holds. */
  readonly policy: () => string | undefined;
  readonly position: () => DecisionPosition | undefined;
  readonly serverCutOffSinceMs: () => number | undefined;
}

/** What a program may say of its decisions. */
export const DECISION_PARTS: PartRulesOf<DecisionDefaults> = {
  onUnavailable: {
    must: "must be 'error', 'deny', 'last' or a function",
    isValid: (value) => typeof value === 'function' || ['error', 'deny', 'last'].includes(value as string),
  },
  ...{ waitMs: aNumber(0), timeoutMs: aNumber(1), lastAnswers: aNumber(0), lastMaxAgeMs: aNumber(0) },
};

const NO_OPTIONS: DecideOptions<never> = {};

/**
 * Decisions in process, whichever engine the client has. Before its start, and until it is filled
 * once, questions wait.
 */
export class Decisions implements Decider {
  readonly #onUnavailable: OnUnavailable;
  readonly #waitMs: number;
  readonly #log: Logger;
  readonly #questions = new Questions();
  readonly #last: LastAnswers;
  readonly #feed: ChangeFeed;
  #client: DecidingClient | undefined;
  #isStopped = false;
  /** Why there will be no decision any more. */
  #failure: SyncError | undefined;
  #wasReady = false;
  readonly #waiting = new Set<() => void>();
  /** Questions without an answer since the last one that had one. */
  #missing = 0;
  readonly #counts = { result: 0, undefined: 0, unavailable: 0 };

  constructor(defaults: DecisionDefaults, deps: { log: Logger }) {
    this.#onUnavailable = defaults.onUnavailable ?? 'error';
    this.#waitMs = defaults.waitMs ?? WAIT_MS;
    this.#log = deps.log;
    this.#last = new LastAnswers({
      count: defaults.lastAnswers ?? LAST_ANSWERS,
      maxAgeMs: defaults.lastMaxAgeMs ?? LAST_MAX_AGE_MS,
    });
    this.#feed = new ChangeFeed({ reads: (path) => this.#client?.engine.reads?.(path), log: deps.log });
  }

  /** How many questions ended how, so far. */
  get counts(): Readonly<Record<'result' | 'undefined' | 'unavailable', number>> {
    return this.#counts;
  }

  /** The client was started: from now on its engine is asked. */
  attach(client: DecidingClient): void {
    this.#client = client;
    this.stateChanged();
  }

  /** Something changed that {@link DecidingClient.isReady} or `isFilled` depends on. */
  stateChanged(): void {
    if (this.#isOpen()) this.#wake();
  }

  policyChanged(): void {
    this.#feed.policyChanged();
  }

  documentsChanged(paths: readonly DocPath[]): void {
    this.#feed.documentsChanged(paths);
  }

  /**
   * The client cannot go on: whoever waits, or asks from now on, learns why at once. The first
   * failure counts.
   */
  fail(error: unknown): void {
    const code = error instanceof SyncError ? error.code : 'decision_failed';
    this.#failure ??= new SyncError(code, `this client decides no more: ${errorText(error)}`, { cause: error });
    this.#wake();
  }

  /** Whoever waits, or asks from now on, learns that the client was stopped. */
  stop(): void {
    this.#isStopped = true;
    this.#feed.close();
    this.#wake();
  }

  #wake(): void {
    for (const go of [...this.#waiting]) go();
  }

  onChange(path: string, callback: (change: DecisionChange) => unknown): () => void {
    return this.#feed.subscribe(this.#questions.path(path), callback);
  }

  decide<T = unknown>(path: string, input?: unknown, options: DecideOptions<T> = NO_OPTIONS): Promise<Decision<T>> {
    let question: EngineQuestion;
    try {
      question = this.#questions.question(path, input);
    } catch (error) {
      return Promise.reject(error);
    }
    return this.#decide(question, options);
  }

  decideMany<T = unknown>(path: string, inputs: readonly unknown[], options?: DecideOptions<T>): Promise<Decision<T>[]>;
  decideMany<T = unknown>(questions: readonly DecisionQuestion[], options?: DecideOptions<T>): Promise<Decision<T>[]>;
  async decideMany<T = unknown>(
    first: string | readonly DecisionQuestion[],
    second?: readonly unknown[] | DecideOptions<T>,
    third?: DecideOptions<T>,
  ): Promise<Decision<T>[]> {
    const [asked, options = NO_OPTIONS] =
      typeof first === 'string'
        ? [(second as readonly unknown[]).map((input) => this.#questions.question(first, input)), third]
        : [
            first.map(({ path, input }) => this.#questions.question(path, input)),
            second as DecideOptions<T> | undefined,
          ];
    // All are asked in one turn of the event loop: an engine in another thread gets them as one
    // message.
    return Promise.all(asked.map((question) => this.#decide(question, options)));
  }

  async #decide<T>(question: EngineQuestion, options: DecideOptions<T>): Promise<Decision<T>> {
    const onUnavailable = options.onUnavailable ?? this.#onUnavailable;
    let decision: Decision;
    try {
      const client = this.#isOpen() ?? (await this.#open(options.waitMs ?? this.#waitMs));
      // Taken before the question: what the engine held at least.
      const position = client.position();
      const policy = client.policy();
      const cutOffSinceMs = client.serverCutOffSinceMs();
      const asked = client.engine.decide(question);
      const answer = asked instanceof Promise ? await asked : asked;
      if (this.#missing > 0) this.#answersAgain();
      decision = decisionOf(answer, policy, position, cutOffSinceMs);
    } catch (error) {
      return this.#withoutAnswer(question, failureOf(question, error), onUnavailable, options);
    }
    this.#counts[decision.kind]++;
    if (onUnavailable === 'last' || typeof onUnavailable === 'function') this.#last.keep(question, decision);
    return parsed(question, decision, options);
  }

  /** The client if it can decide now. */
  #isOpen(): DecidingClient | undefined {
    const client = this.#client;
    if (client === undefined || this.#isStopped || this.#failure !== undefined) return undefined;
    if (!client.isFilled() || !client.isReady()) return undefined;
    this.#wasReady = true;
    return client;
  }

  /** Waits until the client can decide for the first time. Rejects with `decision_not_ready`. */
  async #open(waitMs: number): Promise<DecidingClient> {
    const endMs = performance.now() + waitMs;
    for (;;) {
      const open = this.#isOpen();
      if (open !== undefined) return open;
      if (this.#isStopped) throw new SyncError('already_stopped', 'this client was stopped: it decides no more');
      if (this.#failure !== undefined) throw this.#failure;
      const leftMs = endMs - performance.now();
      if (this.#wasReady || leftMs <= 0) throw this.#notReady(waitMs);
      await new Promise<void>((resolve) => {
        const done = (): void => {
          cancel();
          this.#waiting.delete(done);
          resolve();
        };
        const cancel = startTimer(leftMs, done);
        this.#waiting.add(done);
      });
    }
  }

  #notReady(waitMs: number): SyncError {
    const client = this.#client;
    const reason = client?.reason();
    const why =
      client === undefined
        ? `the client was not started within ${waitMs} ms`
        : this.#wasReady
          ? 'the policy engine is away, or lost policy and data and is being filled'
          : `the client has not had policy and data yet, after ${waitMs} ms`;
    const message = `no decision now: ${why}${reason === undefined ? '' : ` (${reason})`}`;
    return new SyncError('decision_not_ready', message, { retryable: true, retryAfterSeconds: 1 });
  }

  async #withoutAnswer<T>(
    question: EngineQuestion,
    error: SyncError,
    onUnavailable: OnUnavailable,
    options: DecideOptions<T>,
  ): Promise<Decision<T>> {
    this.#counts.unavailable++;
    if (this.#missing++ === 0) {
      this.#log.warn(
        { ...failureFields(error), path: question.path },
        'a decision has no answer; the next ones are counted',
      );
    }
    if (onUnavailable === 'deny') return denied(error);
    const mayBeLast = onUnavailable === 'last' || typeof onUnavailable === 'function';
    const last = mayBeLast ? this.#stale(question, error) : undefined;
    if (typeof onUnavailable === 'function') {
      const input = question.input === undefined ? undefined : parseJson(question.input, { values: MANY_JSON_VALUES });
      const result = await onUnavailable({ path: question.path, input, error, last });
      return fallback(result as T, error);
    }
    if (last === undefined) throw error;
    return parsed(question, last, options);
  }

  #stale(question: EngineQuestion, error: SyncError): Decision | undefined {
    const found = this.#last.find(question);
    return found && { ...found.decision, id: randomUUID(), stale: true, ageMs: found.ageMs, error };
  }

  #answersAgain(): void {
    const without = this.#missing;
    this.#missing = 0;
    this.#log.info({ without }, 'decisions have answers again');
  }
}

function decisionOf(
  { text, by, policy, id }: EngineAnswer,
  heldPolicy: string | undefined,
  position: DecisionPosition | undefined,
  serverCutOffSinceMs: number | undefined,
): Decision {
  // Literals, since this is done for each decision: to spread what both have costs as much as all
  // the rest.
  if (text === undefined) {
    return {
      kind: 'undefined',
      result: undefined,
      text,
      allowed: false,
      by,
      id: id ?? randomUUID(),
      policy: (policy ?? heldPolicy) || undefined,
      position,
      serverCutOffSinceMs,
      stale: false,
      ageMs: 0,
      error: undefined,
    };
  }
  const result = text === 'true' || (text === 'false' ? false : parseJson(text, { values: MANY_JSON_VALUES }));
  return {
    kind: 'result',
    result,
    text,
    allowed: isYes(result),
    by,
    id: id ?? randomUUID(),
    policy: (policy ?? heldPolicy) || undefined,
    position,
    serverCutOffSinceMs,
    stale: false,
    ageMs: 0,
    error: undefined,
  };
}

/** See `DecisionFacts.allowed`. */
function isYes(result: unknown): boolean {
  if (typeof result === 'boolean') return result;
  return typeof result === 'object' && result !== null && 'allow' in result && result.allow === true;
}

/** Of an answer that no engine has given. */
function noFacts(error: SyncError) {
  const nothing = { policy: undefined, position: undefined, serverCutOffSinceMs: undefined };
  return { id: randomUUID(), ...nothing, stale: false, ageMs: 0, error };
}

function denied(error: SyncError): Decision<never> {
  const facts = noFacts(error);
  return { kind: 'unavailable', result: undefined, text: undefined, allowed: false, by: 'deny', ...facts };
}

/** What a function of `onUnavailable` returned, as a decision. */
function fallback<T>(result: T, error: SyncError): Decision<T> {
  const text = JSON.stringify(result) as string | undefined;
  const facts = noFacts(error);
  return text === undefined
    ? { kind: 'undefined', result: undefined, text, allowed: false, by: 'fallback', ...facts }
    : { kind: 'result', result, text, allowed: isYes(result), by: 'fallback', ...facts };
}

function parsed<T>(question: EngineQuestion, decision: Decision, { parser }: DecideOptions<T>): Decision<T> {
  if (parser === undefined || decision.kind !== 'result') return decision as Decision<T>;
  try {
    return { ...decision, result: parser.parse(decision.result) };
  } catch (cause) {
    const message = `the result of ${question.path} is not what the parser accepts`;
    throw new SyncError('decision_result_invalid', message, { cause });
  }
}

/** Why there is no answer; what the engine throws beside `SyncError` is its own failure. */
function failureOf({ path }: EngineQuestion, error: unknown): SyncError {
  if (error instanceof SyncError) return error;
  return new SyncError('decision_failed', `the policy engine could not decide ${path}: ${errorText(error)}`, {
    cause: error,
  });
}

/** The parts of a client that its decisions depend on. */
interface DecidingParts {
  readonly status: Status;
  readonly events: DataEvents;
  readonly engine: Pick<RunningEngine, 'decisions' | 'getting'>;
  readonly held: Pick<EngineCopy, 'watch' | 'watchPolicy' | 'policy'>;
  readonly keeper: Pick<EngineKeeper, 'isFilled' | 'wasFilled'>;
  readonly data: Pick<DataUpdater, 'logPosition'>;
}

/** From now on these decisions ask the engine of a client. */
export function attachDecisions(
  decisions: Decisions,
  { status, events, engine, held, keeper, data }: DecidingParts,
): void {
  let position: DecisionPosition | undefined;
  let isKnown = false;
  const changed = (): void => {
    isKnown = false;
    decisions.stateChanged();
  };
  status.watch(changed);
  events.subscribe(({ kind }) => {
    isKnown = false; // each of them may be about an update that is not applied yet
    if (kind === 'position') decisions.stateChanged();
  });
  held.watch((paths) => decisions.documentsChanged(paths));
  held.watchPolicy(() => decisions.policyChanged());
  decisions.attach({
    engine: engine.decisions,
    isReady: () => status.ready,
    isFilled: () => (engine.decisions.keepsContent === true ? keeper.wasFilled : keeper.isFilled),
    reason: () => status.engine.error ?? engine.getting(),
    policy: () => held.policy?.hash || undefined,
    serverCutOffSinceMs: () => status.serverCutOffSinceMs,
    position: () => {
      if (!isKnown) {
        const at = data.logPosition;
        position = at && Object.freeze({ epoch: at.epoch, seq: appliedUpTo(at) });
        isKnown = true;
      }
      return position;
    },
  });
}

/** Longest question that is kept, in characters: an answer to a larger one is not. */
const MAX_QUESTION_CHARS = 16 * 1024;

interface Kept {
  readonly decision: Decision;
  readonly atMs: number;
}

/**
 * The last good answers by question, as many as {@link LastAnswers} may keep; the oldest goes
 * first.
 */
export class LastAnswers {
  readonly #options: { readonly count: number; readonly maxAgeMs: number };
  readonly #now: () => number;
  readonly #kept = new Map<string, Kept>();

  /** `now`: a monotonic clock, in milliseconds. */
  constructor(options: { count: number; maxAgeMs: number }, now: () => number = () => performance.now()) {
    this.#options = options;
    this.#now = now;
  }

  keep(question: EngineQuestion, decision: Decision): void {
    const key = keyOf(question);
    if (key.length > MAX_QUESTION_CHARS) return;
    this.#kept.delete(key); // so that it is the newest
    this.#kept.set(key, { decision, atMs: this.#now() });
    if (this.#kept.size <= this.#options.count) return;
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined) this.#kept.delete(oldest);
  }

  /**
   * The last good answer to the same question, and its age; undefined if there is none, or it is
   * too old.
   */
  find(question: EngineQuestion): { readonly decision: Decision; readonly ageMs: number } | undefined {
    const found = this.#kept.get(keyOf(question));
    if (found === undefined) return undefined;
    const ageMs = this.#now() - found.atMs;
    return ageMs > this.#options.maxAgeMs ? undefined : { decision: found.decision, ageMs };
  }
}

/** No path has a line end, so that no two questions have one key. */
function keyOf({ path, input }: EngineQuestion): string {
  return input === undefined ? path : `${path}\n${input}`;
}
