import { MANY_JSON_VALUES, parseJson } from '../../lib/json/json.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { GoProgram } from '../artifact.js';
import type {
  CompiledEntrypoint,
  CompiledSet,
  DocumentOp,
  EmbeddedPolicy,
  GoEngine,
  OpaRequest,
  OpaResponse,
  PolicyFacts,
  PreparedDocuments,
  RegoModule,
  WorkerFailure,
} from '../types.js';
import { type EngineProblem, EngineRefusal, opaProblem } from '../vocabulary.js';
import type { GoHost } from './go-host.js';
import { type RunningProgram, runGoProgram } from './go-program.js';

/** Options of {@link GoOpa.start}. */
export interface GoOpaOptions {
  readonly program: GoProgram;
  /** Missing: policies that call `http.send` are refused. */
  readonly host?: GoHost | undefined;
  /** Go collects its memory when it comes near. */
  readonly memoryLimitBytes?: number | undefined;
}

/**
 * The largest module of compiled entrypoints: to be ready for it takes the client several times as
 * much memory.
 */
const MAX_WASM_BYTES = 32 * 1024 * 1024;

/** The errors of a call as Go writes them. */
type Failure = string | null;

/**
 * OPA's own Go code in this thread. Calls that take long let others in between. Nothing limits the
 * time of a decision here: the thread around it does.
 */
export class GoOpa implements Omit<GoEngine, 'kill'> {
  readonly #program: RunningProgram;
  /** Calls that Go has not answered. */
  readonly #waiting = new Set<(error: Error) => void>();
  #failure: WorkerFailure | undefined;
  /** The end of all changes so far, while there is one under way. */
  #changes: Promise<void> | undefined;
  #hasServer = false;

  private constructor(program: RunningProgram) {
    this.#program = program;
    void program.ended.then((failure) => {
      this.#failure = failure;
      for (const reject of this.#waiting) reject(failure);
      this.#waiting.clear();
    });
  }

  /** Rejects with a {@link WorkerFailure} if the program ends before it is ready. */
  static async start({ program, host, memoryLimitBytes }: GoOpaOptions): Promise<GoOpa> {
    return new GoOpa(await runGoProgram(program, { host, memoryLimitBytes }));
  }

  get version(): string {
    return this.#program.calls.opaVersion;
  }

  get memoryBytes(): number {
    return this.#program.memory.buffer.byteLength;
  }

  get ended(): Promise<WorkerFailure> {
    return this.#program.ended;
  }

  async parse(modules: readonly RegoModule[], version: 0 | 1): Promise<readonly string[]> {
    const list = modules.map(({ path, rego }) => ({ path, rego }));
    return parsed<string[]>(await this.#call('parse', JSON.stringify(list), version));
  }

  async check(policy: EmbeddedPolicy, documents: string): Promise<PolicyFacts> {
    return parsed<PolicyFacts>(await this.#call('check', modulesText(policy), documents));
  }

  async prepare(policy: EmbeddedPolicy, { roots, documents }: PreparedDocuments): Promise<PolicyFacts> {
    return parsed<PolicyFacts>(await this.#call('prepare', modulesText(policy), JSON.stringify(roots), documents));
  }

  async commit(): Promise<void> {
    await this.#change('commit');
  }

  async abort(): Promise<void> {
    await this.#change('abort');
  }

  async write(ops: readonly DocumentOp[]): Promise<void> {
    const list = ops.map(({ path, text }) => ({ path, text }) satisfies { path: DocPath; text: string | undefined });
    await this.#change('write', JSON.stringify(list));
  }

  async compile(entrypoints: readonly string[], of: 'active' | 'prepared'): Promise<CompiledSet> {
    const answer = (await this.#call('compile', JSON.stringify(entrypoints), of)) as {
      wasm?: Uint8Array;
      entrypoints: string;
    };
    if (answer.wasm !== undefined) assertUsable(answer.wasm);
    return { wasm: answer.wasm, entrypoints: parsed<CompiledEntrypoint[]>(answer.entrypoints) };
  }

  async decide(path: string, input: string | undefined): Promise<string | undefined> {
    return (await this.#call('decide', path, input)) as string | undefined;
  }

  async http({ method, url, headers, body }: OpaRequest): Promise<OpaResponse> {
    const head = JSON.stringify({ method, url, headers });
    // The first request makes the server, with the active policy: none must be committed meanwhile.
    const call = this.#hasServer ? this.#call('http', head, body) : this.#change('http', head, body);
    const answer = (await call) as { head: string; body: Uint8Array };
    this.#hasServer = true;
    return { ...parsed<Omit<OpaResponse, 'body'>>(answer.head), body: answer.body };
  }

  /**
   * Evaluates a query that is no path; returns its bindings as a JSON list. `isStrict`: an error of
   * a built-in function is an error of the query.
   */
  async query(text: string, input: string | undefined, isStrict: boolean): Promise<string> {
    return String(await this.#call('query', text, input, isStrict));
  }

  /**
   * Runs a built-in function for a compiled policy. `args`: a list as JSON, or as a Rego term where
   * it has sets. `isFresh`: this call is the first one of an evaluation. Returns the result as a
   * Rego term; undefined if the function has none.
   */
  callBuiltin(name: string, args: string, isFresh: boolean): string | undefined {
    if (this.#failure !== undefined) throw this.#failure;
    const answer = this.#program.enter(() => this.#program.calls.callBuiltin(name, args, isFresh));
    if (answer === '') return undefined;
    if (answer.startsWith('E')) throw refusal(answer.slice(1));
    return answer.slice(1);
  }

  #call(name: string, ...args: unknown[]): Promise<unknown> {
    return this.#changes === undefined ? this.#enter(name, args) : this.#changes.then(() => this.#enter(name, args));
  }

  /**
   * A call that all later ones see. Go does not keep them in order: a change waits until no
   * decision reads the documents, which one does while it waits for `http.send`, and then goes on
   * beside the calls that came after it.
   */
  #change(name: string, ...args: unknown[]): Promise<unknown> {
    const result = this.#call(name, ...args);
    const ended = (): void => {
      if (this.#changes === changes) this.#changes = undefined;
    };
    const changes = result.then(ended, ended);
    this.#changes = changes;
    return result;
  }

  #enter(name: string, args: readonly unknown[]): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) throw this.#failure;
      this.#waiting.add(reject);
      const done = (failure: Failure, result: unknown): void => {
        this.#waiting.delete(reject);
        if (failure === null) resolve(result);
        else reject(refusal(failure));
      };
      const call = this.#program.calls[name] as (...all: unknown[]) => void;
      this.#program.enter(() => call(...args, done));
    });
  }
}

/** OPA's compiler has made modules that no engine takes. */
function assertUsable(wasm: Uint8Array): void {
  if (wasm.length > MAX_WASM_BYTES) {
    const [found, limit] = [wasm.length, MAX_WASM_BYTES].map((bytes) => Math.ceil(bytes / 2 ** 20));
    throw new EngineRefusal(`its WebAssembly has ${found} MiB, and may have ${limit} MiB`);
  }
  if (!WebAssembly.validate(wasm)) throw new EngineRefusal("OPA's compiler makes WebAssembly of it that is not valid");
}

function modulesText({ modules }: EmbeddedPolicy): string {
  return JSON.stringify(modules.map(({ path, rego, version }) => ({ path, rego, version })));
}

/** Reads what our own Go program wrote. */
function parsed<T>(text: unknown): T {
  return parseJson(String(text), { values: MANY_JSON_VALUES }) as T;
}

function refusal(text: string): EngineRefusal {
  const problems = parsed<EngineProblem[]>(text);
  const [first] = problems;
  const place = first?.file === undefined ? '' : `${first.file}:${first.row ?? 1}: `;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : '';
  return new EngineRefusal(`${place}${first?.message ?? 'OPA refused the call'}${more}`, problems.map(opaProblem));
}
