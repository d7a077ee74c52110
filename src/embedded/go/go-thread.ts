import { Worker } from 'node:worker_threads';
import type { GoProgram } from '../artifact.js';
import {
  type CompiledSet,
  type DocumentOp,
  type EmbeddedPolicy,
  type GoEngine,
  GoRefusal,
  type OpaRequest,
  type OpaResponse,
  type PolicyFacts,
  type PreparedDocuments,
  type RegoModule,
  WorkerFailure,
} from '../types.js';
import type { GoHost } from './go-host.js';
import type { FromGoWorker, GoCallName, GoWorkerData, ToGoWorker } from './go-messages.js';

/** Options of {@link GoThread.start}. */
export interface GoThreadOptions {
  readonly program: GoProgram;
  /** Missing: policies that call `http.send` are refused. */
  readonly host?: GoHost | undefined;
  /** The thread ends when its Go memory is larger than this after a call. */
  readonly memoryLimitBytes?: number | undefined;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Go's calls are nested on this stack; deep documents need more than a thread has by default. */
const STACK_MB = 16;

/** OPA's Go code in a worker thread. The process may end while no call is under way. */
export class GoThread implements GoEngine {
  readonly #worker: Worker;
  readonly #host: GoHost | undefined;
  readonly #memoryLimitBytes: number;
  readonly #waiting = new Map<number, Waiting>();
  readonly #fetching = new Map<number, AbortController>();
  readonly ended: Promise<string>;
  #end: (reason: string) => void = () => undefined;
  #failure: WorkerFailure | undefined;
  #nextId = 0;
  #memoryBytes = 0;
  #version = '';

  private constructor({ program, host, memoryLimitBytes }: GoThreadOptions) {
    this.#host = host;
    this.#memoryLimitBytes = memoryLimitBytes ?? Number.POSITIVE_INFINITY;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    const workerData: GoWorkerData = { program, memoryLimitBytes, hasHost: host !== undefined };
    this.#worker = new Worker(new URL('./go-worker.js', import.meta.url), {
      name: 'opa',
      workerData,
      env: {},
      resourceLimits: { stackSizeMb: STACK_MB },
    });
  }

  /** Rejects with a {@link WorkerFailure} if the thread ends before it is ready. */
  static start(options: GoThreadOptions): Promise<GoThread> {
    const thread = new GoThread(options);
    return new Promise((resolve, reject) => {
      void thread.ended.then((reason) => reject(new WorkerFailure('ended', reason)));
      thread.#listen(() => resolve(thread));
    });
  }

  get memoryBytes(): number {
    return this.#memoryBytes;
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

  async kill(reason: string): Promise<void> {
    this.#finish(reason);
    await this.#worker.terminate();
  }

  #call(name: GoCallName, ...args: readonly unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) throw this.#failure;
      const id = this.#nextId++;
      this.#waiting.set(id, { resolve, reject });
      this.#worker.ref();
      this.#post({ kind: 'call', id, name, args });
    });
  }

  #post(message: ToGoWorker): void {
    this.#worker.postMessage(message);
  }

  #listen(ready: () => void): void {
    this.#worker.on('message', (message: FromGoWorker) => {
      if (message.kind === 'ready') {
        this.#version = message.version;
        this.#memoryBytes = message.memoryBytes;
        this.#worker.unref();
        ready();
      } else this.#receive(message);
    });
    this.#worker.on('error', (error: Error) => this.#finish(`the thread of OPA's Go code failed: ${error.message}`));
    this.#worker.on('exit', (code) => this.#finish(`the thread of OPA's Go code ended with code ${code}`));
  }

  #receive(message: Exclude<FromGoWorker, { kind: 'ready' }>): void {
    switch (message.kind) {
      case 'result':
        this.#settle(message, (waiting) => waiting.resolve(message.value));
        break;
      case 'refused':
        this.#settle(message, (waiting) => waiting.reject(new GoRefusal(message.message, message.problems)));
        break;
      case 'fetch':
        void this.#fetch(message.id, message.request);
        break;
      case 'fetchAborted':
        this.#fetching.get(message.id)?.abort();
        break;
      case 'ended':
        void this.kill(message.reason);
        break;
    }
  }

  #settle({ id, memoryBytes }: { id: number; memoryBytes: number }, settle: (waiting: Waiting) => void): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker.unref();
    this.#memoryBytes = memoryBytes;
    if (waiting !== undefined) settle(waiting);
    if (memoryBytes > this.#memoryLimitBytes) {
      const mebibytes = (bytes: number) => Math.round(bytes / 2 ** 20);
      void this.kill(
        `memory: OPA's Go code has ${mebibytes(memoryBytes)} MiB, and may have ${mebibytes(this.#memoryLimitBytes)}; raise SYNC_EMBEDDED_ENGINE_MEMORY_LIMIT`,
      );
    }
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

  #finish(reason: string): void {
    if (this.#failure !== undefined) return;
    this.#failure = new WorkerFailure('ended', reason);
    for (const { reject } of this.#waiting.values()) reject(this.#failure);
    this.#waiting.clear();
    for (const fetching of this.#fetching.values()) fetching.abort();
    this.#end(reason);
  }
}
