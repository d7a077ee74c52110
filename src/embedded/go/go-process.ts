import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { SyncError } from '../../lib/errors.js';
import { startTimer } from '../../lib/run/async.js';
import {
  type CompiledSet,
  type DocumentOp,
  type EmbeddedPolicy,
  type GoEngine,
  type OpaRequest,
  type OpaResponse,
  type PolicyFacts,
  type PreparedDocuments,
  type RegoModule,
  WorkerFailure,
} from '../types.js';
import { EngineRefusal } from '../vocabulary.js';
import type { GoHost } from './go-host.js';
import type { FromGoChild, GoCallName, GoSetup, ToGoWorker } from './go-messages.js';

/** Options of {@link GoProcess.start}. */
export interface GoProcessOptions {
  /** Missing: policies that call `http.send` are refused. */
  readonly host?: GoHost | undefined;
  /**
   * The process ends when its Go memory is larger than this after a call, and at once when a call
   * needs a quarter more.
   */
  readonly memoryLimitBytes?: number | undefined;
  /** The process ends if it is not ready by then: frozen, it would say nothing for ever. */
  readonly startMs?: number | undefined;
  /** Environment of the process. Go itself sees none of it. Default: empty. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Longest start: V8 compiles the program, on a machine that may be busy. */
const START_MS = 120_000;

/**
 * What go-child.ts says of a call that needs too much, and Go where it gets no more memory, with
 * the stacks of all that ran.
 */
const OUT_OF_MEMORY = /out of memory|cannot allocate memory/;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/**
 * OPA's Go code in a process of its own. Not in a thread: what V8 takes to compile so large a
 * program stays with the process after the thread has ended. The caller may end while no call is
 * under way.
 */
export class GoProcess implements GoEngine {
  readonly #child: ChildProcess;
  readonly #host: GoHost | undefined;
  readonly #memoryLimitBytes: number;
  readonly #waiting = new Map<number, Waiting>();
  readonly #fetching = new Map<number, AbortController>();
  readonly ended: Promise<WorkerFailure>;
  /** Resolves when the process is gone. */
  readonly #exit: Promise<void>;
  #end: (failure: WorkerFailure) => void = () => undefined;
  #failure: WorkerFailure | undefined;
  #nextId = 0;
  #memoryBytes = 0;
  #version = '';

  #unusable: SyncError | undefined;

  private constructor({ host, memoryLimitBytes, env = {} }: GoProcessOptions) {
    this.#host = host;
    this.#memoryLimitBytes = memoryLimitBytes ?? Number.POSITIVE_INFINITY;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    const setup: GoSetup = { memoryLimitBytes, hasHost: host !== undefined };
    this.#child = fork(fileURLToPath(new URL('./go-child.js', import.meta.url)), [JSON.stringify(setup)], {
      serialization: 'advanced',
      execArgv: [],
      env,
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    this.#exit = new Promise((resolve) => {
      this.#child.once('exit', () => resolve());
    });
  }

  /**
   * Rejects with `engine_artifact_invalid` if the program is not the one of this package, and with
   * a {@link WorkerFailure} if the process ends before it is ready.
   */
  static start(options: GoProcessOptions): Promise<GoProcess> {
    const started = new GoProcess(options);
    const { startMs = START_MS } = options;
    return new Promise((resolve, reject) => {
      const stopTimer = startTimer(startMs, () => {
        void started.kill(`the process of OPA's Go code was not ready within ${startMs} ms`);
      });
      void started.ended.then((failure) => {
        stopTimer();
        reject(started.#unusable ?? failure);
      });
      started.#listen(() => {
        stopTimer();
        resolve(started);
      });
    });
  }

  get memoryBytes(): number {
    return this.#memoryBytes;
  }

  /** Process id; undefined if it could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  get version(): string {
    return this.#version;
  }

  parse(modules: readonly RegoModule[], version: 0 | 1): Promise<readonly string[]> {
    return this.#call('parse', modules, version) as Promise<readonly string[]>;
  }

  check(policy: EmbeddedPolicy, documents: string): Promise<PolicyFacts> {
    return this.#call('check', policy, documents) as Promise<PolicyFacts>;
  }

  prepare(policy: EmbeddedPolicy, change: PreparedDocuments): Promise<PolicyFacts> {
    return this.#call('prepare', policy, change) as Promise<PolicyFacts>;
  }

  async commit(): Promise<void> {
    await this.#call('commit');
  }

  async abort(): Promise<void> {
    await this.#call('abort');
  }

  async write(ops: readonly DocumentOp[]): Promise<void> {
    await this.#call('write', ops);
  }

  compile(entrypoints: readonly string[], of: 'active' | 'prepared'): Promise<CompiledSet> {
    return this.#call('compile', entrypoints, of) as Promise<CompiledSet>;
  }

  decide(path: string, input: string | undefined): Promise<string | undefined> {
    return this.#call('decide', path, input) as Promise<string | undefined>;
  }

  http(request: OpaRequest): Promise<OpaResponse> {
    return this.#call('http', request) as Promise<OpaResponse>;
  }

  /** See `GoOpa.query`. */
  query(text: string, input: string | undefined, isStrict: boolean): Promise<string> {
    return this.#call('query', text, input, isStrict) as Promise<string>;
  }

  kill(reason: string): Promise<void> {
    return this.#kill(new WorkerFailure('ended', reason));
  }

  async #kill(failure: WorkerFailure): Promise<void> {
    this.#finish(failure);
    if (this.#child.pid === undefined) return; // it could not be started
    this.#child.ref();
    this.#child.kill('SIGKILL');
    await this.#exit;
  }

  #call(name: GoCallName, ...args: readonly unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) throw this.#failure;
      const id = this.#nextId++;
      this.#waiting.set(id, { resolve, reject });
      this.#hold();
      this.#post({ kind: 'call', id, name, args });
    });
  }

  #post(message: ToGoWorker): void {
    this.#child.send(message, (error) => {
      if (error !== null) this.#lost(`cannot be reached: ${error.message}`);
    });
  }

  /** Keeps the caller's process alive: a call is under way. */
  #hold(): void {
    this.#child.ref();
    this.#child.channel?.ref();
  }

  /** Not of a process that is being ended: whoever waits for its end would wait in vain. */
  #letGo(): void {
    if (this.#failure !== undefined) return;
    this.#child.unref();
    this.#child.channel?.unref();
  }

  #listen(ready: () => void): void {
    this.#child.on('message', (message: FromGoChild) => {
      if (message.kind === 'ready') {
        this.#version = message.version;
        this.#memoryBytes = message.memoryBytes;
        this.#letGo();
        ready();
      } else this.#receive(message);
    });
    this.#child.on('error', (error: Error) => this.#lost(`failed: ${error.message}`));
    this.#child.on('exit', (code, signal) => this.#lost(`ended with ${signal ?? `code ${code}`}`));
  }

  #receive(message: Exclude<FromGoChild, { kind: 'ready' }>): void {
    switch (message.kind) {
      case 'result':
        this.#settle(message, (waiting) => waiting.resolve(message.value));
        break;
      case 'refused':
        this.#settle(message, (waiting) => waiting.reject(new EngineRefusal(message.message, message.problems)));
        break;
      case 'fetch':
        void this.#fetch(message.id, message.request);
        break;
      case 'fetchAborted':
        this.#fetching.get(message.id)?.abort();
        break;
      case 'unusable':
        this.#unusable = new SyncError('engine_artifact_invalid', message.message);
        void this.kill(message.message);
        break;
      case 'ended':
        void this.#kill(this.#endOf(message));
        break;
    }
  }

  #settle({ id, memoryBytes }: { id: number; memoryBytes: number }, settle: (waiting: Waiting) => void): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#letGo();
    this.#memoryBytes = memoryBytes;
    if (waiting !== undefined) settle(waiting);
    if (memoryBytes > this.#memoryLimitBytes) {
      void this.kill(this.#tooLarge(`has ${mebibytes(memoryBytes)} MiB`));
    }
  }

  /**
   * A crash is one of what was asked; the lack of memory is not, and another process may have
   * enough.
   */
  #endOf({ reason, isCrash }: Extract<FromGoChild, { kind: 'ended' }>): WorkerFailure {
    return OUT_OF_MEMORY.test(reason)
      ? new WorkerFailure('ended', this.#tooLarge('needs more'))
      : new WorkerFailure('ended', reason, { isCrash });
  }

  #tooLarge(what: string): string {
    const limit = mebibytes(this.#memoryLimitBytes);
    return `memory: OPA's Go code ${what}, and may have ${limit} MiB; raise SYNC_EMBEDDED_ENGINE_MEMORY_LIMIT`;
  }

  async #fetch(id: number, request: Parameters<GoHost['fetch']>[0]): Promise<void> {
    const giveUp = new AbortController();
    this.#fetching.set(id, giveUp);
    try {
      if (this.#host === undefined) throw new Error('http.send is not available');
      const response = await this.#host.fetch(request, giveUp.signal);
      this.#post({ kind: 'fetched', id, response });
    } catch (error) {
      this.#post({ kind: 'fetchFailed', id, message: error instanceof Error ? error.message : String(error) });
    } finally {
      this.#fetching.delete(id);
    }
  }

  #lost(what: string): void {
    this.#finish(new WorkerFailure('ended', `the process of OPA's Go code ${what}`));
  }

  #finish(failure: WorkerFailure): void {
    if (this.#failure !== undefined) return;
    this.#failure = failure;
    for (const { reject } of this.#waiting.values()) reject(failure);
    this.#waiting.clear();
    for (const fetching of this.#fetching.values()) fetching.abort();
    this.#end(failure);
  }
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}
