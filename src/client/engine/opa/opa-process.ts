import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent } from 'undici';
import { errorText, failureFields, SyncError } from '../../../lib/errors.js';
import { endpointOf } from '../../../lib/net/proxy.js';
import type { OutgoingTls } from '../../../lib/net/tls.js';
import { type Logger, redactUrl } from '../../../lib/observe/log.js';
import { aborted, type BackoffOptions, backoffMs, firstOf, isAbort, sleep } from '../../../lib/run/async.js';
import type { Env } from '../get-opa/opa-version.js';
import { addressInUse, healthProblem, whenFree } from './opa-address.js';
import { type EngineLogFormat, type InlineEngineConfig, listenAddress, opaArgs, writeConfig } from './opa-args.js';
import { writeAuthz } from './opa-authz.js';
import { engineLogEntry, failureText, isPanicLine, lineSplitter, parseEngineLine } from './opa-log.js';

/** Options of the inline engine's process. */
export interface OpaProcessOptions {
  /** The executable, from `acquireOpa`. */
  execPath: string;
  /** SYNC_POLICY_STORE_URL: for requests, and the listen address if `config.addr` is not set. */
  engineUrl: string;
  /** TLS of our requests, if the engine uses it. */
  tls?: OutgoingTls | undefined;
  /** SYNC_INLINE_ENGINE_CONFIG. */
  config?: InlineEngineConfig | undefined;
  /** Our authorization policy; undefined: `config` decides about access. */
  authzRego?: string | undefined;
  /** OPA's own configuration as JSON text (bundle service and the like). */
  configText?: string | undefined;
  /** SYNC_ENGINE_V0_COMPAT. */
  v0Compatible: boolean;
  /** SYNC_INLINE_ENGINE_LOG_FORMAT. */
  logFormat: EngineLogFormat;
  /** Environment of the child. */
  env: Env;
  /** Folder for the configuration file. Default: the system's. */
  tempDir?: string;
  /** Wait before a restart. Default: full jitter, first at most 100 ms, at most 10 s. */
  restartBackoff?: BackoffOptions;
  /** A run of at least this time resets the backoff. Default 30 s. */
  stableAfterMs?: number;
  /** Time between SIGTERM and SIGKILL. Default 5 s. */
  killAfterMs?: number;
}

/** Log and callbacks of the process. The callbacks must not throw and should only wake loops. */
interface OpaProcessDeps {
  log: Logger;
  /**
   * Called when the engine responds; `run` counts from 1: above 1 it is a restart, and the engine
   * is empty.
   */
  onStarted?(start: { pid: number; run: number }): void;
  /** Called when the engine exited unexpectedly. */
  onExit?(exit: { reason: string; ranMs: number }): void;
}

const STABLE_AFTER_MS = 30_000;
const KILL_AFTER_MS = 5_000;
const RESTART_BACKOFF: BackoffOptions = { minMs: 100, maxMs: 10_000 };
/**
 * Interval of health checks while the engine starts: it takes 50 to 200 ms with nothing to load.
 */
const READY_POLL: BackoffOptions = { minMs: 20, maxMs: 500 };
/** After this time, an engine that runs and does not respond is logged as a warning, repeatedly. */
const SLOW_START_MS = 10_000;
/** Time for a panicking engine to print its stack before it is killed. */
const PANIC_GRACE_MS = 500;

/**
 * Maximum wait for the rest of the output after an exit; a process that left the group may hold it
 * open.
 */
const LAST_WORDS_MS = 500;

/** The end of one run of the child. `exitCode` is undefined after a signal. */
interface RunEnd {
  reason: string;
  exitCode: number | undefined;
  ready: boolean;
}

/** The process of an inline engine; it does nothing until {@link run}. */
export class OpaProcess {
  readonly #options: OpaProcessOptions;
  readonly #deps: OpaProcessDeps;
  readonly #config: InlineEngineConfig;
  readonly #address: string;
  #pid: number | undefined;

  constructor(options: OpaProcessOptions, deps: OpaProcessDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#config = options.config ?? {};
    this.#address = listenAddress({ engineUrl: options.engineUrl, config: this.#config });
  }

  /** Id of the running child, while there is one. */
  get pid(): number | undefined {
    return this.#pid;
  }

  /**
   * Starts the engine, keeps it running, and resolves after `signal` aborts and all its processes
   * have ended.
   *
   * Rejects only if the first start fails permanently: `engine_not_found` (the executable cannot be
   * started), `engine_address_in_use`, `engine_start_failed` (it exited before it responded; the
   * message contains its last output). After a successful start, restarts the engine on every exit.
   */
  async run(signal: AbortSignal): Promise<void> {
    const dir = await mkdtemp(join(this.#options.tempDir ?? tmpdir(), 'policysync-engine-'));
    try {
      const guarded = { ...this.#config, ...(await writeAuthz(dir, this.#options.authzRego, this.#config.files)) };
      const args = opaArgs(
        { ...this.#options, config: guarded },
        await writeConfig(dir, this.#options.configText, this.#config.config_file),
      );
      await this.#keepRunning(args, signal);
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  }

  async #keepRunning(args: readonly string[], signal: AbortSignal): Promise<void> {
    let everReady = false;
    for (let runs = 1, attempt = 1; !signal.aborted; runs += 1, attempt += 1) {
      const startedAt = performance.now();
      let reason: string;
      try {
        const end = await this.#runOnce(args, runs, signal);
        if (signal.aborted) return;
        everReady ||= end.ready;
        if (!everReady && end.exitCode !== undefined && end.exitCode > 0) {
          throw new SyncError('engine_start_failed', `the engine did not start: ${end.reason}`);
        }
        reason = end.reason;
      } catch (error) {
        if (!everReady || isAbort(error, signal)) throw error;
        reason = errorText(error);
      }
      const ranMs = performance.now() - startedAt;
      if (ranMs >= (this.#options.stableAfterMs ?? STABLE_AFTER_MS)) attempt = 1;
      const delayMs = Math.round(backoffMs(attempt, this.#options.restartBackoff ?? RESTART_BACKOFF));
      this.#deps.log.error(
        { ran_ms: Math.round(ranMs), delay_ms: delayMs, ...failureFields(new SyncError('engine_ended', reason)) },
        `the engine is restarted: ${reason}`,
      );
      this.#deps.onExit?.({ reason, ranMs });
      await sleep(delayMs, signal);
    }
  }

  /** Runs one child from start to end. When `signal` aborts, resolves after the child has ended. */
  async #runOnce(args: readonly string[], run: number, signal: AbortSignal): Promise<RunEnd> {
    await whenFree(this.#address, this.#options, signal);
    signal.throwIfAborted();
    const startedAt = performance.now();
    const child = spawn(this.#options.execPath, args, {
      env: { ...this.#options.env },
      detached: HAS_PROCESS_GROUPS,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = endOf(child);
    const output = this.#watchOutput(child, signal);
    // The child is gone, or the engine is to stop.
    const over = new AbortController();
    const onAbort = (): void => over.abort(signal.reason);
    const onProcessExit = (): void => {
      if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
    };
    process.once('exit', onProcessExit);
    signal.addEventListener('abort', onAbort, { once: true });
    let ready = false;
    let gone = true;
    try {
      const started = await firstOf([ended.spawned, ended.exited.then(() => undefined)]);
      if (started !== undefined) {
        this.#pid = started;
        const watch = this.#waitReady(over.signal, startedAt).then(
          () => {
            ready = true;
            this.#deps.log.info(
              { pid: started, address: this.#address, start_ms: Math.round(performance.now() - startedAt) },
              'engine started',
            );
            this.#deps.onStarted?.({ pid: started, run });
          },
          (error: unknown) => {
            // Ended before it responded: the exit or the stop is reported.
            if (!isAbort(error, over.signal)) throw error;
          },
        );
        await firstOf([ended.exited, aborted(over.signal), watch.then(() => ended.exited)]);
        over.abort();
        await watch;
      }
    } finally {
      over.abort();
      signal.removeEventListener('abort', onAbort);
      output.stop();
      // Even after an exit: a wrapper script may have ended before the engine that it started.
      if (child.pid !== undefined) gone = await endGroup(child.pid, this.#options.killAfterMs ?? KILL_AFTER_MS);
      process.removeListener('exit', onProcessExit);
      this.#pid = undefined;
    }
    if (!gone && child.exitCode === null && child.signalCode === null) {
      return { reason: `process ${child.pid} cannot be ended`, exitCode: undefined, ready };
    }
    const { code, text } = await ended.exited;
    await firstOf([ended.closed, sleep(LAST_WORDS_MS, new AbortController().signal)]);
    const failure = code === undefined || code === 0 ? undefined : output.failure();
    if (failure?.includes('address already in use')) throw addressInUse(this.#address);
    return { reason: failure === undefined ? text : `${text}: ${failure}`, exitCode: code, ready };
  }

  /**
   * Forwards the output to our log, records why the engine failed, and kills an engine that panics.
   */
  #watchOutput(child: ChildProcess, signal: AbortSignal): { failure(): string | undefined; stop(): void } {
    let failure: string | undefined;
    let panicTimer: NodeJS.Timeout | undefined;
    const onLine = (text: string): void => {
      const line = parseEngineLine(text);
      failure = failureText(line) ?? failure;
      if (isPanicLine(line) && panicTimer === undefined) {
        this.#deps.log.error(
          { pid: child.pid, ...failureFields(new SyncError('engine_ended', 'it panics')) },
          'the engine panics; it is ended and started again',
        );
        panicTimer = setTimeout(() => child.pid !== undefined && signalGroup(child.pid, 'SIGKILL'), PANIC_GRACE_MS);
      }
      // The stack of a panic is logged in full, in every format.
      const entry = engineLogEntry(line, panicTimer === undefined ? this.#options.logFormat : 'full');
      if (entry === undefined) return;
      // While stopping, it reports errors for aborted requests.
      this.#deps.log[signal.aborted ? 'debug' : entry.level](entry.fields, `engine: ${entry.message}`);
    };
    for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', lineSplitter(onLine));
    return { failure: () => failure, stop: () => clearTimeout(panicTimer) };
  }

  async #waitReady(signal: AbortSignal, startedAt: number): Promise<void> {
    // The child is our own and the request has no secret: its certificate need not be verified.
    // Creating a context takes 60 ms, for its trusted authorities: only if needed.
    const url = new URL(this.#options.engineUrl);
    const context = url.protocol === 'https:' ? this.#options.tls?.context(endpointOf(url)) : undefined;
    const own = context === undefined ? {} : { secureContext: context };
    const agent = new Agent({ connect: { rejectUnauthorized: false, ...own } });
    const anyAnswer = this.#config.authorization === 'basic' || (this.#config.authentication ?? 'off') !== 'off';
    let warnAfterMs = SLOW_START_MS;
    try {
      for (let attempt = 1; ; attempt += 1) {
        const problem = await healthProblem(this.#options.engineUrl, agent, anyAnswer, signal);
        signal.throwIfAborted();
        if (problem === undefined) return;
        const waitedMs = performance.now() - startedAt;
        if (waitedMs > warnAfterMs) {
          this.#deps.log.warn(
            failureFields(new SyncError('engine_unreachable', problem)),
            `the engine was started at ${this.#address} and does not answer at ${redactUrl(this.#options.engineUrl)}: ${problem}`,
          );
          warnAfterMs *= 2;
        }
        await sleep(backoffMs(attempt, READY_POLL), signal);
      }
    } finally {
      await agent.destroy();
    }
  }
}

/**
 * A child's id once it runs, its exit, and the end of its output. `spawned` rejects if the child
 * cannot be started; the others then never settle, and nothing awaits them.
 */
function endOf(child: ChildProcess): {
  spawned: Promise<number>;
  exited: Promise<{ code: number | undefined; text: string }>;
  closed: Promise<void>;
} {
  const spawned = new Promise<number>((resolve, reject) => {
    child.once('spawn', () => resolve(child.pid ?? 0));
    child.once('error', (cause) => {
      const message = `the engine cannot be started: ${child.spawnfile}: ${cause.message}`;
      reject(new SyncError('engine_not_found', message, { cause }));
    });
  });
  const exited = new Promise<{ code: number | undefined; text: string }>((resolve) => {
    child.once('exit', (code, signal) => {
      const text = signal === null ? `it ended with code ${code}` : `it was ended by ${signal}`;
      resolve({ code: code ?? undefined, text });
    });
  });
  const closed = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
  });
  return { spawned, exited, closed };
}

/** Whether a child can have its own process group; Windows has none. */
const HAS_PROCESS_GROUPS = process.platform !== 'win32';

/**
 * Sends a signal to a child's whole group (started `detached`); returns false if the group is
 * empty.
 */
export function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  if (!(pid > 1)) throw new RangeError(`${pid} is no process id of a child`); // 0 and -1 mean groups that are not ours
  try {
    process.kill(HAS_PROCESS_GROUPS ? -pid : pid, signal);
    return true;
  } catch {
    // ESRCH: the group is empty. EPERM: the id has a new owner, so our child is gone.
    return false;
  }
}

/**
 * Ends a group: SIGTERM, then SIGKILL after `killAfterMs`. Returns true if the group is empty,
 * false if it is not a second after SIGKILL: the kernel holds a process, or nothing reaps a dead
 * one.
 */
async function endGroup(pid: number, killAfterMs: number): Promise<boolean> {
  if (!signalGroup(pid, 'SIGTERM')) return true;
  if (await isGone(pid, killAfterMs)) return true;
  signalGroup(pid, 'SIGKILL');
  return isGone(pid, 1_000);
}

async function isGone(pid: number, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  const never = new AbortController().signal;
  for (let attempt = 1; signalGroup(pid, 0); attempt += 1) {
    if (performance.now() > deadline) return false;
    await sleep(
      backoffMs(attempt, { minMs: 4, maxMs: 50 }, 0, () => 1),
      never,
    );
  }
  return true;
}
