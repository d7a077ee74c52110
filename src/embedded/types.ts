import type { DocPath } from '../wire/doc-path.js';
import type { EngineAnswer, EngineQuestion } from './vocabulary.js';

/**
 * What the parts of the embedded engine agree on. A Go process holds OPA's own Go code, an
 * evaluator thread one compiled policy. The main thread orchestrates, and holds the truth: either
 * of them can be ended and filled again.
 */

/** One Rego module. */
export interface RegoModule {
  readonly path: string;
  readonly rego: string;
}

/** A policy to load. `version` of a module: the Rego version that it is read as. */
export interface EmbeddedPolicy {
  readonly hash: string;
  readonly modules: readonly (RegoModule & { readonly version: 0 | 1 })[];
}

/** One change of the documents; `text` is JSON as written, and undefined removes. */
export interface DocumentOp {
  readonly path: DocPath;
  readonly text: string | undefined;
}

/** A request to OPA's REST API. */
export interface OpaRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | undefined;
}

/** The response to an {@link OpaRequest}. */
export interface OpaResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** What decides, as a front sees it. */
export interface DecisionSource {
  decide(question: EngineQuestion): Promise<EngineAnswer>;
  /** `isFree`: the caller has written the query, so that nobody knows what it takes. */
  http(request: OpaRequest, isFree?: boolean): Promise<OpaResponse>;
}

/** What the compiler found out about a policy. */
export interface PolicyFacts {
  /** Document paths of rules: no document may be at, above or below one. */
  readonly rulePaths: readonly DocPath[];
  /** Built-in functions that the policy calls. */
  readonly builtins: readonly string[];
}

/** One entrypoint of a {@link CompiledSet}. */
export interface CompiledEntrypoint {
  readonly path: string;
  /** False: the Go process answers it. */
  readonly compiled: boolean;
  /** Why it is not compiled. */
  readonly reason?: string;
  /** Documents that its result depends on. */
  readonly reads: readonly DocPath[];
  /** Documents that it looks into by keys that may be numbers (number-keys.ts). */
  readonly open?: readonly DocPath[];
}

/** Entrypoints compiled to one module. `wasm` is undefined if none is compiled. */
export interface CompiledSet {
  readonly wasm: Uint8Array | undefined;
  readonly entrypoints: readonly CompiledEntrypoint[];
}

/**
 * Documents that come with a policy: everything at and below `roots` is replaced by what
 * `documents` has there.
 */
export interface PreparedDocuments {
  readonly roots: readonly DocPath[];
  /** One JSON object from the root on. */
  readonly documents: string;
}

/**
 * OPA's own Go code, as the owner of its process sees it. Calls are made in order and answered in
 * order, except `http` and `decide`, which may wait for `http.send`. A call that OPA refuses
 * rejects with an `EngineRefusal` and changes nothing.
 */
export interface GoEngine {
  /** Parses modules as a version of Rego; returns the paths of those that fail. */
  parse(modules: readonly RegoModule[], version: 0 | 1): Promise<readonly string[]>;
  /** Compiles a policy with its documents (one JSON object), and keeps nothing of it. */
  check(policy: EmbeddedPolicy, documents: string): Promise<PolicyFacts>;
  /** Compiles a policy and checks it against all documents; it takes effect with {@link commit}. */
  prepare(policy: EmbeddedPolicy, change: PreparedDocuments): Promise<PolicyFacts>;
  commit(): Promise<void>;
  /** Drops what {@link prepare} made; does nothing without it. */
  abort(): Promise<void>;
  /** Changes documents in one transaction; creates missing parents. */
  write(ops: readonly DocumentOp[]): Promise<void>;
  /**
   * Compiles entrypoints of the active or the prepared policy. Never rejects because of one
   * entrypoint.
   */
  compile(entrypoints: readonly string[], of: 'active' | 'prepared'): Promise<CompiledSet>;
  decide(path: string, input: string | undefined): Promise<string | undefined>;
  /** Evaluates a query that is no path; see `GoOpa.query`. */
  query(text: string, input: string | undefined, isStrict: boolean): Promise<string>;
  /** OPA's own REST API. */
  http(request: OpaRequest): Promise<OpaResponse>;
  readonly memoryBytes: number;
  readonly version: string;
  /** Resolves when the process has ended, with what the calls under way reject with. */
  readonly ended: Promise<WorkerFailure>;
  /** Ends the process at once; calls under way reject with a {@link WorkerFailure}. */
  kill(reason: string): Promise<void>;
}

/** A compiled policy with its documents, in a thread of its own or in the caller's. */
export interface Evaluator {
  /** Rejects with a {@link WorkerFailure}. */
  decide(path: string, input: string | undefined): Promise<string | undefined>;
  /** As {@link decide}, at once, where the evaluator is on the caller's thread; throws. */
  decideNow?(path: string, input: string | undefined): string | undefined;
  /**
   * Changes documents in place. The caller has checked the operations: no path leads through a
   * scalar or an array.
   */
  patch(ops: readonly DocumentOp[]): Promise<void>;
  /** The document at a path, as text; undefined if there is none. */
  read(path: DocPath): Promise<string | undefined>;
  readonly memoryBytes: number;
  /**
   * Resolves with the reason when the evaluator has ended: a decision past its time limit, its
   * memory limit, {@link close}.
   */
  readonly ended: Promise<EvaluatorEnd>;
  close(): Promise<void>;
}

/**
 * Why a call of a worker failed. `erred`: this question; Go is asked. `timeout`: this question took
 * too long, and ended the worker. `ended`: the worker ended meanwhile, and this call is made again.
 */
export class WorkerFailure extends Error {
  readonly kind: 'erred' | 'timeout' | 'ended';
  /** An end amid this call, by what it asks for: the same call would end the next worker, too. */
  readonly isCrash: boolean;
  /**
   * The documents are why this question erred, whatever it asks: the next one of its path errs,
   * too, until they change.
   */
  readonly isOfDocuments: boolean;

  constructor(
    kind: WorkerFailure['kind'],
    message: string,
    options: ErrorOptions & { readonly isCrash?: boolean; readonly isOfDocuments?: boolean } = {},
  ) {
    super(message, options);
    this.name = 'WorkerFailure';
    this.kind = kind;
    this.isCrash = options.isCrash === true;
    this.isOfDocuments = options.isOfDocuments === true;
  }
}

/** Why an evaluator ended. */
export interface EvaluatorEnd {
  readonly kind: 'closed' | 'timeout' | 'memory' | 'crashed';
  readonly message: string;
}
