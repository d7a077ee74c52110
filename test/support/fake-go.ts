import { Documents } from '../../src/embedded/documents.js';
import {
  type CompiledSet,
  type DocumentOp,
  type EmbeddedPolicy,
  type Evaluator,
  type EvaluatorEnd,
  type GoEngine,
  type OpaRequest,
  type OpaResponse,
  type PolicyFacts,
  type PreparedDocuments,
  WorkerFailure,
} from '../../src/embedded/types.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import type { DocPath } from '../../src/wire/doc-path.js';

/**
 * A language for tests: each line of a module is `app/allow = users/alice`, a rule whose value is the document at that path. With
 * `go:` before it, it is not compiled. The module `crash` ends Go.
 */
type Rules = ReadonlyMap<string, { readonly reads: string; readonly isGoOnly: boolean }>;

/** Reads the rules of a policy; refuses a line that is none. */
function rulesOf({ modules }: EmbeddedPolicy): Rules {
  const lines = modules.flatMap(({ path: file, rego }) =>
    rego
      .split('\n')
      .filter((line) => line !== '')
      .map((line, row) => ({ file, row: row + 1, line })),
  );
  return new Map(
    lines.map(({ file, row, line }) => {
      const found = /^(go:)?([\w/]+) = ([\w/]+)$/.exec(line);
      if (found?.[2] === undefined || found[3] === undefined) {
        throw new EngineRefusal('1 error occurred', [
          { message: `unexpected ${line}`, file, row, code: 'rego_parse_error' },
        ]);
      }
      return [found[2], { reads: found[3], isGoOnly: found[1] !== undefined }];
    }),
  );
}

function segments(path: string): DocPath {
  return path.split('/').filter((segment) => segment !== '');
}

/** What a worker that can be ended has in common. */
class Life {
  readonly ended: Promise<WorkerFailure>;
  #end: (failure: WorkerFailure) => void = () => undefined;
  #failure: WorkerFailure | undefined;
  readonly #waiting = new Set<(error: Error) => void>();

  constructor() {
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  get hasEnded(): boolean {
    return this.#failure !== undefined;
  }

  assert(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  end(reason: string, { isCrash = false } = {}): void {
    this.#failure ??= new WorkerFailure('ended', reason, { isCrash });
    for (const reject of this.#waiting) reject(this.#failure);
    this.#end(this.#failure);
  }

  /** A call that never returns. */
  hang(): Promise<never> {
    return new Promise((_, reject) => this.#waiting.add(reject));
  }
}

/** A Go part that holds policy and documents like the real one, in this thread. */
export class FakeGo implements GoEngine {
  readonly version = '1.22.3';
  readonly #life = new Life();
  readonly #documents = new Documents();
  #rules: Rules = new Map();
  #prepared: { rules: Rules; change: PreparedDocuments } | undefined;
  memoryBytes = 1000;
  /** Names of the calls, in order. */
  readonly calls: string[] = [];
  /** Paths that never get an answer. */
  readonly hangs = new Set<string>();
  /** A call that fails once it is made. */
  failing: string | undefined;
  /** Entrypoints whose compilation ends it. */
  fatal: ReadonlySet<string> = new Set();
  /** What happens once a compilation has looked at the documents, before it answers. */
  duringCompile: (() => Promise<void>) | undefined;

  get ended(): Promise<WorkerFailure> {
    return this.#life.ended;
  }

  get hasEnded(): boolean {
    return this.#life.hasEnded;
  }

  documents(): unknown {
    return JSON.parse(this.#documents.text());
  }

  async parse(): Promise<readonly string[]> {
    await this.#begin('parse');
    return [];
  }

  async check(policy: EmbeddedPolicy, documents: string): Promise<PolicyFacts> {
    await this.#begin('check');
    return factsOf(rulesOf(policy), documentsOf(documents));
  }

  async prepare(policy: EmbeddedPolicy, change: PreparedDocuments): Promise<PolicyFacts> {
    await this.#begin('prepare');
    if (policy.modules.some(({ rego }) => rego === 'crash')) this.#life.end('it crashed: too deep', { isCrash: true });
    this.#life.assert();
    const rules = rulesOf(policy);
    const after = documentsOf(this.#documents.text());
    place(after, change);
    const facts = factsOf(rules, after);
    this.#prepared = { rules, change };
    return facts;
  }

  async commit(): Promise<void> {
    await this.#begin('commit');
    if (this.#prepared === undefined) throw new EngineRefusal('nothing is prepared');
    this.#rules = this.#prepared.rules;
    place(this.#documents, this.#prepared.change);
    this.#prepared = undefined;
  }

  async abort(): Promise<void> {
    await this.#begin('abort');
    this.#prepared = undefined;
  }

  async write(ops: readonly DocumentOp[]): Promise<void> {
    await this.#begin('write');
    const change = this.#documents.apply(ops);
    try {
      factsOf(this.#rules, this.#documents);
    } catch (error) {
      change.undo();
      throw error;
    }
  }

  async compile(entrypoints: readonly string[], of: 'active' | 'prepared'): Promise<CompiledSet> {
    await this.#begin('compile');
    const rules = of === 'active' ? this.#rules : (this.#prepared?.rules ?? new Map());
    const found = entrypoints.map((path) => {
      const rule = rules.get(path);
      if (rule === undefined || rule.isGoOnly) return { path, compiled: false, reason: 'not compiled', reads: [] };
      return { path, compiled: true, reads: [segments(rule.reads)], open: [segments(rule.reads)] };
    });
    await this.duringCompile?.();
    if (entrypoints.some((path) => this.fatal.has(path))) {
      this.#life.end('it takes too much');
      this.#life.assert();
    }
    const compiled = found.filter((one) => one.compiled).map(({ path }) => [path, rules.get(path)?.reads]);
    const wasm = compiled.length === 0 ? undefined : new TextEncoder().encode(JSON.stringify(compiled));
    return { wasm, entrypoints: found };
  }

  async decide(path: string): Promise<string | undefined> {
    await this.#begin('decide');
    if (this.hangs.has(path)) return this.#life.hang();
    return this.#documents.read(segments(this.#rules.get(path)?.reads ?? decodeURIComponent(path)));
  }

  /** Queries for one reference: `x = data["a"]`. */
  async query(text: string): Promise<string> {
    await this.#begin('query');
    const path = [...text.matchAll(/\[("[^"]*")\]/g)].map(([, name = '']) => JSON.parse(name) as string);
    const reads = this.#rules.get(path.join('/'))?.reads;
    const found = this.#documents.read(reads === undefined ? path : segments(reads));
    return found === undefined ? '[]' : `[{"x":${found}}]`;
  }

  async http({ method, url }: OpaRequest): Promise<OpaResponse> {
    await this.#begin('http');
    if (this.hangs.has(url)) return await this.#life.hang();
    const path = decodeURIComponent(url.replace('/v1/data', ''));
    const text = this.#documents.read(segments(this.#rules.get(path.slice(1))?.reads ?? path));
    const body = text === undefined ? '{}' : `{"result":${text}}`;
    return { status: method === 'GET' ? 200 : 405, headers: {}, body: new TextEncoder().encode(body) };
  }

  async kill(reason: string): Promise<void> {
    this.#life.end(reason);
  }

  async #begin(call: string): Promise<void> {
    this.#life.assert();
    this.calls.push(call);
    await Promise.resolve();
    this.#life.assert();
    if (this.failing !== call) return;
    this.failing = undefined;
    this.#life.end(`ended by ${call}`);
    this.#life.assert();
  }
}

function documentsOf(text: string): Documents {
  const documents = new Documents();
  documents.apply([{ path: [], text }]);
  return documents;
}

function place(documents: Documents, { roots, documents: text }: PreparedDocuments): void {
  const from = documentsOf(text);
  const ops = roots.flatMap((path) => [
    { path, text: undefined },
    ...(from.read(path) === undefined ? [] : [{ path, text: from.read(path) }]),
  ]);
  documents.apply(ops);
}

function factsOf(rules: Rules, documents: Documents): PolicyFacts {
  const rulePaths = [...rules.keys()].map(segments);
  for (const path of rulePaths) {
    if (documents.read(path) === undefined) continue;
    const message = `conflicting rule for data path ${path.join('/')} found`;
    throw new EngineRefusal(message, [{ message, file: 'app.rego', row: 1, code: 'rego_compile_error' }]);
  }
  return { rulePaths, builtins: [] };
}

/** An evaluator of what {@link FakeGo} compiles. */
export class FakeEvaluator implements Evaluator {
  readonly #life = new Life();
  readonly #documents: Documents;
  readonly #rules: ReadonlyMap<string, string>;
  readonly memoryBytes = 500;
  /** Paths that never get an answer. */
  readonly hangs = new Set<string>();
  /** Paths that compiled evaluation errs at. */
  readonly errs = new Set<string>();
  /** Paths that read documents which are not for it. */
  readonly odd = new Set<string>();
  /** Paths whose decisions take too long, which ends it. */
  late: ReadonlySet<string> = new Set();
  isPatchFailing = false;
  patches = 0;
  #kind: EvaluatorEnd['kind'] = 'closed';

  constructor({ wasm, documents }: { wasm: Uint8Array; documents: string }) {
    this.#rules = new Map(JSON.parse(new TextDecoder().decode(wasm)) as [string, string][]);
    this.#documents = documentsOf(documents);
  }

  get ended(): Promise<EvaluatorEnd> {
    return this.#life.ended.then(({ message }) => ({ kind: this.#kind, message }));
  }

  get hasEnded(): boolean {
    return this.#life.hasEnded;
  }

  async decide(path: string): Promise<string | undefined> {
    this.#life.assert();
    if (this.errs.has(path)) throw new WorkerFailure('erred', 'it errs');
    if (this.odd.has(path)) throw new WorkerFailure('erred', 'odd numbers', { isOfDocuments: true });
    if (this.hangs.has(path)) return this.#life.hang();
    if (this.late.has(path)) {
      setImmediate(() => this.end('timeout')); // the caller learns of it before the owner does
      throw new WorkerFailure('timeout', 'a decision takes too long', { isCrash: true });
    }
    const reads = this.#rules.get(path);
    if (reads === undefined) throw new Error(`${path} is no entrypoint`);
    return this.#documents.read(segments(reads));
  }

  async patch(ops: readonly DocumentOp[]): Promise<void> {
    this.#life.assert();
    this.patches++;
    if (this.isPatchFailing) throw new WorkerFailure('erred', 'no memory left');
    this.#documents.apply(ops);
  }

  async read(path: DocPath): Promise<string | undefined> {
    this.#life.assert();
    return this.#documents.read(path);
  }

  /** Ends it as if it had crashed, or as another kind. */
  end(kind: EvaluatorEnd['kind']): void {
    this.#kind = kind;
    this.#life.end(kind);
  }

  async close(): Promise<void> {
    this.end('closed');
  }
}
