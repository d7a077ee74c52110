import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ARTIFACT } from '../embedded/artifact-sums.js';
import { errorText } from '../lib/errors.js';
import { firstOf, SerialQueue, withAnySignal } from '../lib/run/async.js';
import { childEnv } from '../lib/run/child-env.js';
import type { CheckAnswer, CheckJob, FromChecker, ToChecker } from './messages.js';

/** The engine that compiles: the same one gives the same answer. */
export const CHECKER = `OPA ${ARTIFACT.opaVersion}, ${ARTIFACT.wasmSha256.slice(0, 16)}`;

/** What one check may take. */
export interface CheckerLimits {
  readonly timeoutMs: number;
  /** Of the whole process. */
  readonly memoryBytes: number;
}

/**
 * How long a process waits for a check: the fetch of a commit that was announced takes about as
 * long, and pushes come in storms.
 */
const KEEP_MS = 10_000;
/** A process that takes more is not kept: what it has parsed stays with it. */
const KEPT_BYTES = 512 * 1024 * 1024;

/** A process, from its start to its end. */
interface Running {
  readonly child: ChildProcess;
  /** Resolves with how it ended, or why it could not be started. */
  readonly gone: Promise<string>;
  /** It has judged a policy before. */
  hasJudged: boolean;
}

/**
 * Compiles policies with OPA's own code, in a process that ends soon after the last answer.
 * Whatever keeps it from an answer, time and memory included, is an answer, too.
 */
export class Checker {
  readonly #env: NodeJS.ProcessEnv;
  readonly #keepMs: number;
  readonly #checks = new SerialQueue();
  #running: Running | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isBusy = false;
  #isClosed = false;

  constructor({ env, keepMs = KEEP_MS }: { readonly env: NodeJS.ProcessEnv; readonly keepMs?: number }) {
    this.#env = env;
    this.#keepMs = keepMs;
  }

  /** Starts the process, so that a check that comes soon does not wait for that. */
  prepare(): void {
    if (this.#isClosed || this.#isBusy) return;
    this.#started();
    this.#rest();
  }

  /** Compiles one policy. Rejects with the reason of the signal. */
  check(job: CheckJob, limits: CheckerLimits, signal: AbortSignal): Promise<CheckAnswer> {
    return this.#checks.run(async () => {
      this.#isBusy = true;
      clearTimeout(this.#timer);
      try {
        const isKept = this.#running?.hasJudged === true;
        const answer = await this.#ask(job, limits, signal);
        // What the checks before left there may be the reason.
        return isKept && answer.kind === 'failed' ? await this.#ask(job, limits, signal) : answer;
      } finally {
        this.#isBusy = false;
        if (this.#running !== undefined) this.#rest();
      }
    });
  }

  /** Ends the process; no other one is started. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#end();
  }

  async #ask(job: CheckJob, limits: CheckerLimits, signal: AbortSignal): Promise<CheckAnswer> {
    signal.throwIfAborted();
    try {
      const running = this.#started();
      const ask = (either: AbortSignal): Promise<FromChecker> =>
        answerOf(running, { job, memoryLimitBytes: limits.memoryBytes }, either);
      const { memoryBytes, ...answer } = await withAnySignal([signal], ask, limits.timeoutMs);
      running.hasJudged = true;
      if (answer.kind === 'failed' || memoryBytes > KEPT_BYTES || this.#keepMs === 0) await this.#end();
      return answer;
    } catch (error) {
      await this.#end();
      signal.throwIfAborted();
      const isLate = error instanceof DOMException && error.name === 'TimeoutError';
      return {
        kind: 'failed',
        reason: isLate ? `it takes longer than ${limits.timeoutMs / 1000} s` : errorText(error),
      };
    }
  }

  /** The process that runs, else a new one. */
  #started(): Running {
    if (this.#isClosed) throw new Error('the server stops');
    if (this.#running !== undefined) return this.#running;
    const child = startChild(this.#env);
    const running: Running = { child, gone: exitOf(child), hasJudged: false };
    this.#running = running;
    child.once('exit', () => {
      if (this.#running === running) this.#running = undefined;
    });
    return running;
  }

  /**
   * Ends the process after a while, unless a check comes. It keeps nobody from ending meanwhile.
   */
  #rest(): void {
    clearTimeout(this.#timer);
    this.#running?.child.unref();
    this.#running?.child.channel?.unref();
    this.#timer = setTimeout(() => void this.#end(), this.#keepMs);
    this.#timer.unref();
  }

  /** Never rejects. */
  async #end(): Promise<void> {
    clearTimeout(this.#timer);
    const running = this.#running;
    this.#running = undefined;
    if (running === undefined) return;
    running.child.ref();
    running.child.kill('SIGKILL');
    await running.gone;
  }
}

function startChild(env: NodeJS.ProcessEnv): ChildProcess {
  return fork(fileURLToPath(new URL('./checker-child.js', import.meta.url)), [], {
    serialization: 'advanced',
    execArgv: [],
    env: childEnv(env, 'engine'),
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
}

function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve(`its process ended with ${signal ?? `code ${code}`}`));
    child.on('error', (error) => {
      if (child.pid === undefined) resolve(`its process could not be started: ${errorText(error)}`);
    });
  });
}

/** Asks a process for one answer, which keeps this one from ending meanwhile. */
async function answerOf({ child, gone }: Running, asked: ToChecker, signal: AbortSignal): Promise<FromChecker> {
  const failed = (reason: string): FromChecker => ({ kind: 'failed', reason, memoryBytes: 0 });
  let leave: () => void = () => undefined;
  const answered = new Promise<FromChecker>((resolve, reject) => {
    signal.throwIfAborted();
    const onAbort = (): void => reject(signal.reason);
    leave = () => {
      child.off('message', resolve);
      signal.removeEventListener('abort', onAbort);
    };
    child.on('message', resolve);
    signal.addEventListener('abort', onAbort, { once: true });
    child.send(asked, (error) => {
      if (error !== null) resolve(failed(`its process cannot be reached: ${errorText(error)}`));
    });
  });
  child.ref();
  child.channel?.ref();
  try {
    const first = await firstOf([answered, gone]);
    return typeof first === 'string' ? failed(first) : first;
  } finally {
    leave();
  }
}
