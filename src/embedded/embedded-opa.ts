import { failureFields, SyncError } from '../lib/errors.js';
import { elements, members } from '../lib/json/json-text.js';
import { outermost } from '../lib/json/path-tree.js';
import { Places } from '../lib/net/places.js';
import type { Logger } from '../lib/observe/log.js';
import { SerialQueue, unlessAborted, withAnySignal } from '../lib/run/async.js';
import type { DocPath } from '../wire/doc-path.js';
import { dataRef } from '../wire/rego-ref.js';
import { Documents } from './documents.js';
import { CompileLoop, EntrypointCompiler } from './entrypoint-compiler.js';
import { EntrypointTable, entrypointName, type GoEntrypoint } from './entrypoints.js';
import { FreeQueries } from './free-queries.js';
import { GoKeeper, type GoKeeperOptions, type GoState } from './go-keeper.js';
import type { MostTogether } from './most-together.js';
import { leaveNumberKeys } from './number-keys.js';
import type { Replica, StartEvaluator } from './replica.js';
import { NO_EVALUATOR, Serving } from './serving.js';
import type { TimedGo } from './timed-go.js';
import {
  type CompiledSet,
  type DecisionSource,
  type DocumentOp,
  type EmbeddedPolicy,
  type GoEngine,
  type OpaRequest,
  type OpaResponse,
  type RegoModule,
  WorkerFailure,
} from './types.js';
import { type EngineAnswer, type EngineQuestion, EngineRefusal, type Region } from './vocabulary.js';

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
  /** As `startGo`: a process that compiles entrypoints. */
  readonly startCompiler: () => Promise<GoEngine>;
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

/**
 * A change with more text than this leads to a new evaluator: the one that serves would be busy
 * with it.
 */
const LARGE_CHANGE = 1024 * 1024;
/** Workers in which a question is asked before it fails. */
const MAX_ATTEMPTS = 4;
/** Processes in which a policy is judged: the first one may have ended because of a decision. */
const MAX_JUDGEMENTS = 2;
const NOTHING_COMPILED: CompiledSet = { wasm: undefined, entrypoints: [] };
/**
 * How long a policy waits for its entrypoints while the one before serves. Then it is active, and
 * Go answers until they are compiled.
 */
const PATIENCE_MS = 10_000;

/** A compilation of entrypoints. */
interface Compiling {
  readonly policy: EmbeddedPolicy;
  readonly result: Promise<MostTogether>;
  /** Changes of documents since it began: the compiler has looked at those before. */
  readonly written: DocumentOp[];
}

/**
 * The OPA inside the package: holds policy and documents as the truth, and keeps the workers that
 * decide. Changes are made one after the other, each whole or not at all; decisions wait neither
 * for them nor for a compilation.
 */
export class EmbeddedOpa implements DecisionSource {
  readonly #log: Logger;
  readonly #go: GoKeeper;
  readonly #free: FreeQueries;
  readonly #serving: Serving;
  readonly #table: EntrypointTable;
  readonly #compiler: EntrypointCompiler;
  readonly #loop: CompileLoop;
  readonly #compilings = new Set<Compiling>();
  /** One that a policy did not wait for. */
  #unfinished: Compiling | undefined;
  readonly #changes = new SerialQueue();
  readonly #watchers = new Set<(change: EngineChange) => void>();
  readonly #documents = new Documents();
  #policy: EmbeddedPolicy | undefined;
  /** Of the commit whose policy and documents these are: a later one may have the same modules. */
  #hash: string | undefined;
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
      onLeft: (path, reason) => this.#table.leaveToGo([path], reason),
      log: deps.log,
    });
    const { maxEntrypoints, entrypoints: fixed, knownEntrypoints: known = [] } = options;
    this.#table = new EntrypointTable(maxEntrypoints, { fixed, known });
    this.#compiler = new EntrypointCompiler(options, { start: deps.startCompiler });
    this.#loop = new CompileLoop(() => this.#compileWanted(), deps.log);
  }

  get state(): EmbeddedState {
    const paths = this.#table.compiledPaths();
    const left = new Map(paths.map((path) => [path, this.#serving.reasonForGo(path)]));
    const withGo = [...left].flatMap(([path, reason]) => (reason === undefined ? [] : [{ path, reason }]));
    return {
      go: [this.#free.state, this.#compiler.state].reduce(together, this.#go.state),
      evaluator: this.#serving.state,
      decisions: { ...this.#decisions },
      compiled: paths.filter((path) => left.get(path) === undefined),
      withGo: [...withGo, ...this.#table.withGo()],
    };
  }

  /** The paths that another run begins with, the least recently used first. */
  get knownEntrypoints(): readonly string[] {
    return this.#table.compiledPaths();
  }

  /** Hash of the active policy; undefined before the first one. */
  get policy(): string | undefined {
    return this.#hash;
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
    return withCode(this.#judged((go) => go.parse(modules, version)));
  }

  /** Checks a policy with documents of its own. Rejects with a `EngineRefusal`. */
  async check(policy: EmbeddedPolicy, regions: readonly Region[]): Promise<void> {
    const documents = textOf(regions);
    await withCode(this.#judged((go) => go.check(policy, documents)));
  }

  /**
   * Replaces the policy, and everything at and below its roots and those of the policy before by
   * the regions. Rejects with a `EngineRefusal`: then nothing changed.
   */
  activate(
    policy: EmbeddedPolicy,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal?: AbortSignal,
  ): Promise<void> {
    return this.#changes.run(() => withCode(this.#activate(policy, roots, regions, signal)));
  }

  /**
   * Changes documents, all or none; with `hash`, they are those of this commit, which has the
   * modules of the active policy. Rejects with a `EngineRefusal`: then nothing changed.
   */
  write(ops: readonly DocumentOp[], hash?: string): Promise<void> {
    return this.#changes.run(async () => {
      await withCode(this.#write(ops));
      this.#hash = hash ?? this.#hash;
    });
  }

  /**
   * The document at a path as the engine holds it, results of rules included, in the form of OPA's
   * response.
   */
  async read(path: DocPath): Promise<string> {
    if (!this.#rules.overlap(path)) {
      const held = await this.#serving.read(path);
      if (held !== 'none') return held.text === undefined ? '{}' : `{"result":${held.text}}`;
    }
    // Not by REST: OPA's whole server would be made for it. Nor as a decision, whose paths have not
    // all names.
    const [row] = elements(await this.#asked((go) => go.query(`x = ${dataRef(path)}`, undefined, false)));
    const text = row === undefined ? undefined : members(row).get('x');
    return text === undefined ? '{}' : `{"result":${text}}`;
  }

  /** As {@link decide}; at once where the evaluator is on this thread and has the answer. */
  answer(question: EngineQuestion): EngineAnswer | Promise<EngineAnswer> {
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
    return { text, by: 'compiled', policy: this.#hash };
  }

  async decide(question: EngineQuestion): Promise<EngineAnswer> {
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

  /**
   * The documents that a path depends on; undefined if that is not known, because it is not
   * compiled.
   */
  readsOf(path: string): readonly DocPath[] | undefined {
    return this.#serving.entrypoint(entrypointName(path))?.reads;
  }

  /**
   * Calls back after each change, until the returned function is called. The callback must return
   * at once.
   */
  watch(onChange: (change: EngineChange) => void): () => void {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  }

  async close(): Promise<void> {
    const compiling = [this.#compiler.close(), this.#loop.close()];
    const closing = [this.#go.close(), this.#free.close(), this.#serving.close(), ...compiling];
    await Promise.all(closing);
    await this.#changes.settled();
  }

  #asked<T>(call: (go: GoEngine) => Promise<T>): Promise<T> {
    return withCode(this.#go.use(call));
  }

  /**
   * A call about a policy that comes: one that ends Go whenever it is made is a refusal, and is not
   * made for ever.
   */
  async #judged<T>(call: (go: TimedGo) => Promise<T>): Promise<T> {
    try {
      return await this.#go.use(call, MAX_JUDGEMENTS);
    } catch (error) {
      if (!(error instanceof WorkerFailure && error.isCrash)) throw error;
      throw new EngineRefusal(`the policy is too much for OPA's compiler: ${error.message}`);
    }
  }

  async #decide({ path, input }: EngineQuestion): Promise<EngineAnswer & { readonly by: 'compiled' | 'go' }> {
    const name = entrypointName(path);
    const isWanted = this.#table.use(name);
    for (let attempt = 1; this.#serving.entrypoint(name) !== undefined; attempt++) {
      const policy = this.#hash;
      try {
        return { text: await this.#serving.decide(name, input), by: 'compiled', policy };
      } catch (error) {
        if (!(error instanceof WorkerFailure) || error.kind === 'timeout') throw error;
        if (error.kind === 'erred') break; // Go has OPA's own words for it
        if (attempt === MAX_ATTEMPTS) throw error;
      }
    }
    return this.#go.use(async (go) => {
      const policy = this.#hash;
      const answer = go.decide(name, input);
      if (isWanted) this.#loop.request();
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
    for (const { written } of this.#compilings) for (const op of ops) written.push(op);
    const size = ops.reduce((sum, { text = '' }) => sum + text.length, 0);
    await this.#serving.patch(ops, size > LARGE_CHANGE);
    if (ops.length > 0) this.#tell({ kind: 'documents', paths: ops.map(({ path }) => path) });
  }

  async #activate(
    policy: EmbeddedPolicy,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const replaced = outermost([...this.#roots, ...roots]);
    const documents = textOf(regions);
    const preparing = this.#judged(async (go) => {
      const { rulePaths } = await go.prepare(policy, { roots: replaced, documents });
      return { go, rules: new Places(rulePaths) };
    });
    // The first policy waits for nothing.
    const compiling =
      this.#policy === undefined || !this.#table.hasRegular
        ? undefined
        : this.#begin(
            policy,
            this.#documentsAfter(replaced, regions),
            preparing.then(({ rules }) => this.#table.toCompileFirst(rules)),
          );
    let next: Replica | undefined;
    let most: MostTogether | undefined;
    const { go, rules } = await preparing.catch((error: unknown) => {
      this.#end(compiling);
      throw error;
    });
    try {
      most = await this.#resultOf(compiling, signal);
      next = await this.#evaluatorOf(most?.set ?? NOTHING_COMPILED, replaced, regions);
      signal?.throwIfAborted();
    } catch (error) {
      this.#end(compiling);
      this.#serving.drop(next);
      if (this.#go.isCurrent(go)) await go.abort();
      throw error;
    }
    // From here to the commit nothing else runs: a decision finds either the policy before or this
    // one, with its documents.
    this.#documents.replace(replaced, regions);
    this.#policy = policy;
    this.#hash = policy.hash;
    this.#roots = roots;
    this.#rules = rules;
    this.#table.newPolicy(rules);
    for (const one of this.#compilings) if (one !== compiling) this.#compilings.delete(one);
    if (most !== undefined) {
      this.#note(most, most.set);
      if (next === undefined) this.#table.leaveToGo(compiledOf(most.set), NO_EVALUATOR);
    }
    this.#unfinished = most === undefined && this.#table.hasWanted ? compiling : undefined;
    if (this.#unfinished === undefined) this.#end(compiling);
    this.#serving.swap(next);
    this.#free.drop('another policy is active');
    if (this.#table.hasWanted) this.#loop.request();
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

  #begin(policy: EmbeddedPolicy, documents: string, paths: Promise<readonly string[]>): Compiling {
    const isWanted = (): boolean => this.#compilings.has(compiling);
    const compiling: Compiling = {
      policy,
      written: [],
      result: this.#compiler.compile({ policy, documents, paths, isWanted }),
    };
    compiling.result.catch(() => undefined); // whoever began it awaits it, or has given it up
    this.#compilings.add(compiling);
    return compiling;
  }

  #end(compiling: Compiling | undefined): void {
    if (compiling !== undefined) this.#compilings.delete(compiling);
  }

  /** Undefined: it is not there in time, or failed. */
  async #resultOf(
    compiling: Compiling | undefined,
    signal: AbortSignal | undefined,
  ): Promise<MostTogether | undefined> {
    if (compiling === undefined) return undefined;
    const { result } = compiling;
    const signals = signal === undefined ? [] : [signal];
    try {
      return await withAnySignal(signals, (either) => unlessAborted(result, either), PATIENCE_MS);
    } catch (error) {
      signal?.throwIfAborted();
      this.#log.debug(failureFields(error), 'a policy does not wait for its entrypoints: Go answers meanwhile');
      return undefined;
    }
  }

  /** Notes what is compiled, and what stays with Go. */
  #note({ failed }: MostTogether, set: CompiledSet): void {
    this.#table.compiled(set);
    this.#table.failed(failed);
    for (const [path, reason] of failed)
      this.#log.warn({ path, reason }, 'an entrypoint cannot be compiled: Go answers it');
  }

  /**
   * An evaluator with the documents as they are after an activation; undefined if there is none: Go
   * answers then.
   */
  async #evaluatorOf(
    set: CompiledSet,
    replaced: readonly DocPath[],
    regions: readonly Region[],
  ): Promise<Replica | undefined> {
    if (set.wasm === undefined) return undefined;
    try {
      return await this.#serving.make(set, this.#documentsAfter(replaced, regions));
    } catch (error) {
      this.#log.warn(failureFields(error), 'no evaluator of compiled policy can be made: Go answers');
      return undefined;
    }
  }

  #documentsAfter(replaced: readonly DocPath[], regions: readonly Region[]): string {
    const change = this.#documents.replace(replaced, regions);
    const documents = this.#documents.text();
    change.undo();
    return documents;
  }

  /** Compiles the entrypoints in use, those that were asked for first among them. */
  async #compileWanted(): Promise<void> {
    const policy = this.#policy;
    const begun = this.#unfinished;
    this.#unfinished = undefined;
    if (policy === undefined || !this.#table.hasWanted) {
      this.#end(begun);
      return;
    }
    const paths = Promise.resolve(this.#table.toCompile());
    const compiling = begun ?? this.#begin(policy, this.#documents.text(), paths);
    try {
      await this.#adopt(compiling);
    } finally {
      this.#end(compiling);
      if (begun !== undefined && this.#table.hasWanted) this.#loop.request(); // what that one left for later
    }
  }

  /** Lets what was compiled serve, unless another policy is active by then. */
  async #adopt({ policy, result, written }: Compiling): Promise<void> {
    const most = await result;
    if (policy !== this.#policy) return; // compiled with the next one
    // Nothing is written between here and the evaluator, which follows the documents from its
    // beginning.
    const set = leaveNumberKeys(most.set, written);
    let next: Replica | undefined;
    try {
      next = await this.#serving.make(set);
    } catch (error) {
      if (policy === this.#policy) this.#table.leaveToGo(compiledOf(set), NO_EVALUATOR);
      throw error;
    }
    if (policy !== this.#policy) {
      this.#serving.drop(next);
      return;
    }
    this.#note(most, set);
    this.#serving.swap(next);
    const compiled = compiledOf(set).length;
    this.#log.debug(
      { compiled, with_go: most.failed.size + set.entrypoints.length - compiled },
      'entrypoints compiled',
    );
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

function together(go: GoState, { memoryBytes, failedEnds }: Pick<GoState, 'memoryBytes' | 'failedEnds'>): GoState {
  return { ...go, memoryBytes: go.memoryBytes + memoryBytes, failedEnds: go.failedEnds + failedEnds };
}

function compiledOf({ entrypoints }: CompiledSet): string[] {
  return entrypoints.filter(({ compiled }) => compiled).map(({ path }) => path);
}

function textOf(regions: readonly Region[]): string {
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
