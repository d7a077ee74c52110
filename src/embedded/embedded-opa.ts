import { SerialQueue } from '../lib/async.js';
import { failureFields, SyncError } from '../lib/errors.js';
import { elements, members } from '../lib/json-text.js';
import type { Logger } from '../lib/log.js';
import { outermost } from '../lib/path-tree.js';
import { Places } from '../lib/places.js';
import type { DocPath } from '../wire/doc-path.js';
import { dataRef } from '../wire/rego-ref.js';
import { CompileLoop } from './compile-loop.js';
import { Documents } from './documents.js';
import { EntrypointTable, entrypointName, type GoEntrypoint } from './entrypoints.js';
import { FreeQueries } from './free-queries.js';
import { GoKeeper, type GoKeeperOptions, type GoState } from './go-keeper.js';
import { leaveNumberKeys } from './number-keys.js';
import type { Replica, StartEvaluator } from './replica.js';
import { Serving } from './serving.js';
import type { TimedGo } from './timed-go.js';
import {
  type Answer,
  type CompiledSet,
  type DecisionSource,
  type DocumentOp,
  type EmbeddedPolicy,
  type GoEngine,
  type OpaRequest,
  type OpaResponse,
  type PolicyFacts,
  type Question,
  type RegoModule,
  WorkerFailure,
} from './types.js';

/** Options of {@link EmbeddedOpa}. */
export interface EmbeddedOpaOptions extends GoKeeperOptions {
  /** Entrypoints that are compiled at most. */
  readonly maxEntrypoints: number;
  /** Entrypoints that are compiled before somebody asks for them. */
  readonly entrypoints: readonly string[];
  /** Those of the last run, the least recently used first. */
  readonly knownEntrypoints?: readonly string[];
}

/** Dependencies of {@link EmbeddedOpa}. */
export interface EmbeddedOpaDeps {
  readonly startGo: () => Promise<GoEngine>;
  readonly startEvaluator: StartEvaluator;
  /** The Go program is not needed any more. */
  readonly releaseGo: () => void;
  /** The engine cannot serve (with the reason), or can again. */
  readonly onFailing: (reason: string | undefined) => void;
  readonly log: Logger;
}

/** What changed in an engine. */
export type EngineChange =
  | { readonly kind: 'policy'; readonly hash: string }
  | { readonly kind: 'documents'; readonly paths: readonly DocPath[] };

/** A subtree that comes with a policy. */
export interface DocumentRegion {
  readonly path: DocPath;
  readonly text: string;
}

/** How an embedded engine is. */
export interface EmbeddedState {
  /** Of decisions, with the memory and the ends of the process for free queries. */
  readonly go: GoState;
  readonly evaluator: Serving['state'];
  /** Decisions since the start. */
  readonly decisions: { readonly compiled: number; readonly go: number; readonly failed: number };
  readonly compiled: readonly string[];
  readonly withGo: readonly GoEntrypoint[];
}

/** A change with more text than this leads to a new evaluator: the one that serves would be busy with it. */
const LARGE_CHANGE = 1024 * 1024;
/** Workers in which a question is asked before it fails. */
const MAX_ATTEMPTS = 4;
const NOTHING_COMPILED: CompiledSet = { wasm: undefined, entrypoints: [] };

/**
 * The OPA inside the package: holds policy and documents as the truth, and keeps the workers that decide. Changes are made one after
 * the other, each whole or not at all; decisions never wait for them.
 */
export class EmbeddedOpa implements DecisionSource {
  readonly #log: Logger;
  readonly #go: GoKeeper;
  readonly #free: FreeQueries;
  readonly #serving: Serving;
  readonly #table: EntrypointTable;
  readonly #compiling: CompileLoop;
  /** Changes of documents while entrypoints are compiled. */
  #written: DocumentOp[] | undefined;
  readonly #changes = new SerialQueue();
  readonly #watchers = new Set<(change: EngineChange) => void>();
  readonly #documents = new Documents();
  #policy: EmbeddedPolicy | undefined;
  /** Subtrees that came with the policy. */
  #roots: readonly DocPath[] = [];
  #rules = new Places();
  readonly #decisions = { compiled: 0, go: 0, failed: 0 };

  constructor(options: EmbeddedOpaOptions, deps: EmbeddedOpaDeps) {
    this.#log = deps.log;
    const go = {
      start: deps.startGo,
      fill: (one: GoEngine) => this.#fill(one),
      release: () => {
        if (!this.#go.isHeld && !this.#free.isHeld) deps.releaseGo();
      },
      log: deps.log,
    };
    this.#go = new GoKeeper(options, { ...go, onFailing: deps.onFailing });
    this.#free = new FreeQueries(options, go);
    this.#serving = new Serving({
      start: deps.startEvaluator,
      documents: () => this.#documents.text(),
      log: deps.log,
    });
    const { maxEntrypoints, entrypoints: fixed, knownEntrypoints: known = [] } = options;
    this.#table = new EntrypointTable(maxEntrypoints, { fixed, known });
    this.#compiling = new CompileLoop(() => this.#compileWanted(), deps.log);
  }

  get state(): EmbeddedState {
    return {
      go: together(this.#go.state, this.#free.state),
      evaluator: this.#serving.state,
      decisions: { ...this.#decisions },
      compiled: this.#table.compiledPaths(),
      withGo: this.#table.withGo(),
    };
  }

  /** Hash of the active policy; undefined before the first one. */
  get policy(): string | undefined {
    return this.#policy?.hash;
  }

  /** Version of OPA; undefined before the start. */
  get version(): string | undefined {
    return this.#go.version;
  }

  /** Starts the Go part, which says whether this engine can work at all. */
  start(): Promise<void> {
    return this.#go.use(() => Promise.resolve());
  }

  /** Parses modules as a version of Rego; returns the paths of those that fail. */
  parse(modules: readonly RegoModule[], version: 0 | 1): Promise<readonly string[]> {
    return this.#asked((go) => go.parse(modules, version));
  }

  /** Checks a policy with documents of its own. Rejects with a `GoRefusal`. */
  async check(policy: EmbeddedPolicy, regions: readonly DocumentRegion[]): Promise<void> {
    await this.#asked((go) => go.check(policy, textOf(regions)));
  }

  /**
   * Replaces the policy, and everything at and below its roots and those of the policy before by the regions. Rejects with a
   * `GoRefusal`: then nothing changed.
   */
  activate(
    policy: EmbeddedPolicy,
    roots: readonly DocPath[],
    regions: readonly DocumentRegion[],
    signal?: AbortSignal,
  ): Promise<void> {
    return this.#changes.run(() => withCode(this.#activate(policy, roots, regions, signal)));
  }

  /** Changes documents, all or none. Rejects with a `DocumentRefusal` or a `GoRefusal`: then nothing changed. */
  write(ops: readonly DocumentOp[]): Promise<void> {
    return this.#changes.run(() => withCode(this.#write(ops)));
  }

  /** The document at a path as the engine holds it, results of rules included, in the form of OPA's response. */
  async read(path: DocPath): Promise<string> {
    if (!this.#rules.overlap(path)) {
      const held = await this.#serving.read(path);
      if (held !== 'none') return held.text === undefined ? '{}' : `{"result":${held.text}}`;
    }
    // Not by REST: OPA's whole server would be made for it. Nor as a decision, whose paths have not all names.
    const [row] = elements(await this.#asked((go) => go.query(`x = ${dataRef(path)}`, undefined, false)));
    const text = row === undefined ? undefined : members(row).get('x');
    return text === undefined ? '{}' : `{"result":${text}}`;
  }

  /** As {@link decide}; at once where the evaluator is on this thread and has the answer. */
  answer(question: Question): Answer | Promise<Answer> {
    const { path, input } = question;
    const local = this.#serving.localFor(path);
    if (local === undefined) return this.decide(question);
    let text: string | undefined;
    try {
      text = local.decideNow(path, input);
    } catch {
      return this.decide(question); // which has its ways for what failed here
    }
    this.#table.use(path);
    this.#decisions.compiled++;
    return { text, by: 'compiled', policy: this.#policy?.hash };
  }

  async decide(question: Question): Promise<Answer> {
    try {
      const answer = await this.#decide(question);
      this.#decisions[answer.by]++;
      return answer;
    } catch (error) {
      this.#decisions.failed++;
      throw publicError(error);
    }
  }

  http(request: OpaRequest, isFree = false): Promise<OpaResponse> {
    return isFree ? withCode(this.#free.http(request)) : this.#asked((go) => go.http(request));
  }

  /** The documents that a path depends on; undefined if that is not known, because it is not compiled. */
  readsOf(path: string): readonly DocPath[] | undefined {
    return this.#serving.entrypoint(entrypointName(path))?.reads;
  }

  /** Calls back after each change, until the returned function is called. The callback must return at once. */
  watch(onChange: (change: EngineChange) => void): () => void {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  }

  async close(): Promise<void> {
    const closing = [this.#go.close(), this.#free.close(), this.#serving.close(), this.#compiling.close()];
    await Promise.all(closing);
    await this.#changes.settled();
  }

  #asked<T>(call: (go: GoEngine) => Promise<T>): Promise<T> {
    return withCode(this.#go.use(call));
  }

  async #decide({ path, input }: Question): Promise<Answer> {
    const name = entrypointName(path);
    const isWanted = this.#table.use(name);
    for (let attempt = 1; this.#serving.entrypoint(name) !== undefined; attempt++) {
      const policy = this.#policy?.hash;
      try {
        return { text: await this.#serving.decide(name, input), by: 'compiled', policy };
      } catch (error) {
        if (!(error instanceof WorkerFailure) || error.kind === 'timeout') throw error;
        if (error.kind === 'erred') break; // Go has OPA's own words for it
        if (attempt === MAX_ATTEMPTS) throw error;
      }
    }
    return this.#go.use(async (go) => {
      const policy = this.#policy?.hash;
      const answer = go.decide(name, input);
      if (isWanted) this.#compiling.request(); // after the answer
      return { text: await answer, by: 'go', policy };
    });
  }

  async #write(changes: readonly DocumentOp[]): Promise<void> {
    const planned = this.#documents.apply(changes);
    const { ops } = planned;
    if (ops.some(({ path, text }) => text !== undefined && this.#rules.overlap(path))) {
      planned.undo();
      const checkedBy = await this.#go.use(async (go) => {
        await go.write(ops);
        return go;
      });
      this.#documents.apply(changes);
      if (!this.#go.isCurrent(checkedBy)) this.#go.write(ops);
    } else {
      this.#go.write(ops);
    }
    this.#free.write(ops);
    for (const op of ops) this.#written?.push(op);
    const size = ops.reduce((sum, { text = '' }) => sum + text.length, 0);
    await this.#serving.patch(ops, size > LARGE_CHANGE);
    if (ops.length > 0) this.#tell({ kind: 'documents', paths: ops.map(({ path }) => path) });
  }

  async #activate(
    policy: EmbeddedPolicy,
    roots: readonly DocPath[],
    regions: readonly DocumentRegion[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const replaced = outermost([...this.#roots, ...roots]);
    let mayCompile = true;
    const prepared = await this.#go.use(async (go) => {
      const facts = await go.prepare(policy, { roots: replaced, documents: textOf(regions) });
      const compiles = mayCompile;
      mayCompile = false; // if that ends the process: a policy that is only Go's is better than the one before
      return { go, ...(await this.#compilePrepared(go, facts, compiles)) };
    });
    const { go, rules, set } = prepared;
    let next: Replica | undefined;
    try {
      next = await this.#evaluatorOf(set, replaced, regions);
      signal?.throwIfAborted();
    } catch (error) {
      this.#serving.drop(next);
      if (this.#go.isCurrent(go)) await go.abort();
      throw error;
    }
    // From here to the commit nothing else runs: a decision finds either the policy before or this one, with its documents.
    this.#documents.replace(replaced, regions);
    this.#policy = policy;
    this.#roots = roots;
    this.#rules = rules;
    this.#table.newPolicy(rules);
    this.#table.compiled(set);
    if (next === undefined) this.#table.leaveToGo(compiledOf(set), NO_EVALUATOR);
    this.#serving.swap(next);
    this.#free.drop('another policy is active');
    await this.#commit(go);
    this.#tell({ kind: 'policy', hash: policy.hash });
  }

  /** The policy is in force: a process that cannot follow is filled again. */
  async #commit(go: TimedGo): Promise<void> {
    if (!this.#go.isCurrent(go)) {
      this.#go.drop('another policy is active');
      return;
    }
    try {
      await go.commit();
    } catch (error) {
      this.#log.warn(failureFields(error), 'the Go part of the engine did not take a policy: it is filled again');
      this.#go.drop('it did not take a policy');
    }
  }

  async #compilePrepared(
    go: TimedGo,
    { rulePaths }: PolicyFacts,
    mayCompile: boolean,
  ): Promise<{ readonly rules: Places; readonly set: CompiledSet }> {
    const rules = new Places(rulePaths);
    const paths = mayCompile ? this.#table.toCompile(rules) : [];
    if (paths.length === 0) return { rules, set: NOTHING_COMPILED };
    try {
      return { rules, set: await go.compile(paths, 'prepared') };
    } catch (error) {
      if (error instanceof WorkerFailure) throw new WorkerFailure('ended', error.message, { cause: error });
      await go.abort();
      throw error;
    }
  }

  /** An evaluator with the documents as they are after an activation; undefined if there is none: Go answers then. */
  async #evaluatorOf(
    set: CompiledSet,
    replaced: readonly DocPath[],
    regions: readonly DocumentRegion[],
  ): Promise<Replica | undefined> {
    if (set.wasm === undefined) return undefined;
    const change = this.#documents.replace(replaced, regions);
    const documents = this.#documents.text();
    change.undo();
    try {
      return await this.#serving.make(set, documents);
    } catch (error) {
      this.#log.warn(failureFields(error), 'no evaluator of compiled policy can be made: Go answers');
      return undefined;
    }
  }

  /** Compiles the entrypoints in use, those that were asked for first among them. */
  async #compileWanted(): Promise<void> {
    const policy = this.#policy;
    const paths = this.#table.toCompile();
    if (policy === undefined || paths.length === 0) return;
    const written: DocumentOp[] = [];
    this.#written = written;
    try {
      await this.#compile(policy, paths, written);
    } finally {
      this.#written = undefined;
    }
  }

  /** `written`: documents of the time of the compilation, which count, too: the compiler has looked at those before. */
  async #compile(policy: EmbeddedPolicy, paths: readonly string[], written: readonly DocumentOp[]): Promise<void> {
    let set: CompiledSet;
    try {
      set = await this.#go.use((go) => go.compile(paths, 'active'));
    } catch (error) {
      // It ends the process, and would again.
      if (error instanceof WorkerFailure && policy === this.#policy) this.#table.leaveToGo(paths, error.message);
      throw error;
    }
    // Nothing is written between here and the evaluator, which follows the documents from its beginning.
    set = leaveNumberKeys(set, written);
    if (policy !== this.#policy) return; // compiled with the next one
    let next: Replica | undefined;
    try {
      next = await this.#serving.make(set);
    } catch (error) {
      this.#table.leaveToGo(compiledOf(set), NO_EVALUATOR);
      throw error;
    }
    if (policy !== this.#policy) {
      this.#serving.drop(next);
      return;
    }
    this.#table.compiled(set);
    this.#serving.swap(next);
    const compiled = compiledOf(set).length;
    this.#log.debug({ compiled, with_go: set.entrypoints.length - compiled }, 'entrypoints compiled');
  }

  async #fill(go: GoEngine): Promise<void> {
    const documents = this.#documents.text();
    const policy = this.#policy ?? { hash: '', modules: [] };
    if (policy.modules.length === 0 && documents === '{}') return;
    await go.prepare(policy, { roots: [[]], documents });
    await go.commit();
  }

  #tell(change: EngineChange): void {
    for (const onChange of this.#watchers) onChange(change);
  }
}

function together(go: GoState, { memoryBytes, failedEnds }: GoState): GoState {
  return { ...go, memoryBytes: go.memoryBytes + memoryBytes, failedEnds: go.failedEnds + failedEnds };
}

const NO_EVALUATOR =
  'no evaluator could be made with all documents; see the log, and SYNC_EMBEDDED_ENGINE_MEMORY_LIMIT';

function compiledOf({ entrypoints }: CompiledSet): string[] {
  return entrypoints.filter(({ compiled }) => compiled).map(({ path }) => path);
}

function textOf(regions: readonly DocumentRegion[]): string {
  const documents = new Documents();
  documents.apply(regions);
  return documents.text();
}

async function withCode<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw publicError(error);
  }
}

/** The error as callers get it: refusals as they are, failures of workers with a code. */
function publicError(error: unknown): unknown {
  if (!(error instanceof WorkerFailure)) return error;
  if (error.kind === 'timeout') {
    return new SyncError('decision_timeout', error.message, { cause: error });
  }
  return new SyncError('engine_unreachable', error.message, { cause: error, retryable: true });
}
