import { Deadlines } from './deadlines.js';
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
} from './types.js';

/** Time limits of calls to Go, in milliseconds. */
export interface GoLimits {
  /** A decision, or a request to the REST API. */
  readonly decisionMs: number;
  /** All other calls: to compile thousands of modules takes a while. */
  readonly workMs: number;
}

/** A Go thread whose calls have time limits: a call past its limit ends the thread. */
export class TimedGo implements GoEngine {
  readonly #go: GoEngine;
  readonly #limits: GoLimits;
  readonly #deadlines: Deadlines;
  /** When the last call ended, in `performance.now()` time. */
  #lastMs = performance.now();

  constructor(go: GoEngine, limits: GoLimits) {
    this.#go = go;
    this.#limits = limits;
    this.#deadlines = new Deadlines(() => void this.kill('a call took longer than its time limit'));
    void go.ended.then(() => this.#deadlines.close());
  }

  /** How long nothing has been asked, in milliseconds; 0 while a call is under way. */
  get idleMs(): number {
    return this.#deadlines.size > 0 ? 0 : performance.now() - this.#lastMs;
  }

  get memoryBytes(): number {
    return this.#go.memoryBytes;
  }

  get version(): string {
    return this.#go.version;
  }

  get ended(): Promise<string> {
    return this.#go.ended;
  }

  parse(modules: readonly RegoModule[], version: 0 | 1): Promise<readonly string[]> {
    return this.#work(() => this.#go.parse(modules, version));
  }

  check(policy: EmbeddedPolicy, documents: string): Promise<PolicyFacts> {
    return this.#work(() => this.#go.check(policy, documents));
  }

  prepare(policy: EmbeddedPolicy, change: PreparedDocuments): Promise<PolicyFacts> {
    return this.#work(() => this.#go.prepare(policy, change));
  }

  commit(): Promise<void> {
    return this.#work(() => this.#go.commit());
  }

  abort(): Promise<void> {
    return this.#work(() => this.#go.abort());
  }

  write(ops: readonly DocumentOp[]): Promise<void> {
    return this.#work(() => this.#go.write(ops));
  }

  compile(entrypoints: readonly string[], of: 'active' | 'prepared'): Promise<CompiledSet> {
    return this.#work(() => this.#go.compile(entrypoints, of));
  }

  decide(path: string, input: string | undefined): Promise<string | undefined> {
    return this.#timed(this.#limits.decisionMs, `the decision ${path}`, () => this.#go.decide(path, input));
  }

  http(request: OpaRequest): Promise<OpaResponse> {
    const what = `${request.method} ${request.url.split('?', 1)[0]}`;
    return this.#timed(this.#limits.decisionMs, what, () => this.#go.http(request));
  }

  kill(reason: string): Promise<void> {
    return this.#go.kill(reason);
  }

  #work<T>(call: () => Promise<T>): Promise<T> {
    return this.#timed(this.#limits.workMs, 'the work on a policy or on documents', call);
  }

  async #timed<T>(limitMs: number, what: string, call: () => Promise<T>): Promise<T> {
    const timed = this.#deadlines.begin(limitMs);
    try {
      return await call();
    } catch (cause) {
      if (!timed.isLate) throw cause;
      throw new WorkerFailure('timeout', `${what} took longer than ${limitMs} ms`, { cause });
    } finally {
      timed.done();
      this.#lastMs = performance.now();
    }
  }
}
