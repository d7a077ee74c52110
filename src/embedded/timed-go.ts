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
  /** To compile entrypoints together to WebAssembly. */
  readonly compileMs: number;
}

/** OPA's server is made at its first request, which may take longer than a decision may. */
const FIRST_REQUEST: OpaRequest = { method: 'GET', url: '/health', headers: {}, body: undefined };

/** A Go process whose calls have time limits: a call past its limit ends the process. */
export class TimedGo implements GoEngine {
  readonly #go: GoEngine;
  readonly #limits: GoLimits;
  /** Decisions are answered between the steps of other work, so they have a clock of their own. */
  readonly #decisions: Deadlines;
  readonly #work: Deadlines;
  /** OPA's server answers requests. */
  #serving: Promise<unknown> | undefined;
  /** When the last call ended, in `performance.now()` time. */
  #lastMs = performance.now();

  constructor(go: GoEngine, limits: GoLimits) {
    this.#go = go;
    this.#limits = limits;
    const onLate = (): void => void this.kill('a call took longer than its time limit');
    this.#work = new Deadlines(onLate);
    this.#decisions = new Deadlines(onLate, () => this.#work.size > 0);
    void go.ended.then(() => {
      this.#work.close();
      this.#decisions.close();
    });
  }

  /** How long nothing has been asked, in milliseconds; 0 while a call is under way. */
  get idleMs(): number {
    return this.#decisions.size + this.#work.size > 0 ? 0 : performance.now() - this.#lastMs;
  }

  get memoryBytes(): number {
    return this.#go.memoryBytes;
  }

  get version(): string {
    return this.#go.version;
  }

  get ended(): Promise<WorkerFailure> {
    return this.#go.ended;
  }

  parse(modules: readonly RegoModule[], version: 0 | 1): Promise<readonly string[]> {
    return this.#working(() => this.#go.parse(modules, version));
  }

  check(policy: EmbeddedPolicy, documents: string): Promise<PolicyFacts> {
    return this.#working(() => this.#go.check(policy, documents));
  }

  prepare(policy: EmbeddedPolicy, change: PreparedDocuments): Promise<PolicyFacts> {
    return this.#working(() => this.#go.prepare(policy, change));
  }

  commit(): Promise<void> {
    return this.#working(() => this.#go.commit());
  }

  abort(): Promise<void> {
    return this.#working(() => this.#go.abort());
  }

  write(ops: readonly DocumentOp[]): Promise<void> {
    return this.#working(() => this.#go.write(ops));
  }

  compile(entrypoints: readonly string[], of: 'active' | 'prepared'): Promise<CompiledSet> {
    const { compileMs } = this.#limits;
    return this.#timed(this.#work, compileMs, 'to compile it to WebAssembly', () => this.#go.compile(entrypoints, of));
  }

  decide(path: string, input: string | undefined): Promise<string | undefined> {
    return this.#timed(this.#decisions, this.#limits.decisionMs, `the decision ${path}`, () =>
      this.#go.decide(path, input),
    );
  }

  query(text: string, input: string | undefined, isStrict: boolean): Promise<string> {
    return this.#timed(this.#decisions, this.#limits.decisionMs, 'a query', () =>
      this.#go.query(text, input, isStrict),
    );
  }

  async http(request: OpaRequest): Promise<OpaResponse> {
    this.#serving ??= this.#working(() => this.#go.http(FIRST_REQUEST));
    await this.#serving;
    const what = `${request.method} ${request.url.split('?', 1)[0]}`;
    return await this.#timed(this.#decisions, this.#limits.decisionMs, what, () => this.#go.http(request));
  }

  kill(reason: string): Promise<void> {
    return this.#go.kill(reason);
  }

  #working<T>(call: () => Promise<T>): Promise<T> {
    return this.#timed(this.#work, this.#limits.workMs, 'the work on a policy or on documents', call);
  }

  async #timed<T>(clock: Deadlines, limitMs: number, what: string, call: () => Promise<T>): Promise<T> {
    const timed = clock.begin(limitMs);
    try {
      return await call();
    } catch (cause) {
      if (!timed.isLate) throw cause;
      throw new WorkerFailure(
        clock === this.#decisions ? 'timeout' : 'erred',
        `${what} took longer than ${limitMs} ms`,
        { cause },
      );
    } finally {
      timed.done();
      this.#lastMs = performance.now();
    }
  }
}
