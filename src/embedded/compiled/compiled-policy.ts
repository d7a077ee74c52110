import { parseJson } from '../../lib/json/json.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { DocumentOp } from '../types.js';
import { type Address, instantiate, MOST_PAGES, PAGE_BYTES, type PolicyExports } from './abi.js';
import { EvaluationError } from './evaluation-error.js';
import { COMPUTED, exactResult } from './exact-results.js';
import { goJson } from './go-json.js';
import { hasOtherSpelling, OddNumbers } from './odd-numbers.js';
import { isPlainJson, withoutLoneSurrogates } from './plain-json.js';
import { copyOfStash, findStash, memberAt, PolicyMemory, reserve } from './policy-memory.js';
import { parseTerm } from './term-text.js';

/**
 * Calls a built-in function that a module does not have: `args` is a Rego array as text, the result
 * a Rego term, undefined where the call is undefined. `isFresh` with the first call of an
 * evaluation: `time.now_ns` stays the same until the next such call. Throws for what ends an
 * evaluation.
 */
export type CallBuiltin = (name: string, args: string, isFresh: boolean) => string | undefined;

/** Options of {@link CompiledPolicy}. */
export interface CompiledPolicyOptions {
  /** Needed if {@link CompiledPolicy.needs} has names. */
  readonly callBuiltin?: CallBuiltin;
  /** Documents that an entrypoint depends on; one without an entry may depend on all. */
  readonly reads?: ReadonlyMap<string, readonly DocPath[]> | undefined;
  readonly memoryLimitBytes: number;
  /** About how many bytes of JSON the documents will have. */
  readonly documentBytes: number;
}

/** Bytes in memory for each byte of JSON: measured 14 to 20. */
const HEAP_PER_JSON_BYTE = 14;
/**
 * Room for evaluations. It is not in use before they touch it; a module that has to grow does so
 * page by page, in milliseconds each.
 */
const WORK_BYTES = 256 * 1024 * 1024;
/** What evaluations may leave touched beyond the documents: more is given back. */
const SPARE_BYTES = 64 * 1024 * 1024;
/** Around the result, where there is one. */
const BEFORE_RESULT = '{{"result": ';
const AFTER_RESULT = '}}';
/** Before the names of functions that a module leaves out although it could have them. */
const RENAMED = 'policysync__exact_';
const LETTER_S = 0x73;
const LETTER_T = 0x74;
const LETTER_F = 0x66;

/** What `opa_abort` throws through the module. */
class Abort extends Error {}
/** An error of {@link CallBuiltin} on its way through the module. */
class BuiltinFailure extends Error {}

/**
 * One compiled policy (an OPA module with its entrypoints) and the documents in its memory. Each
 * evaluation starts at the end of the documents' heap and leaves nothing behind. Errors are
 * {@link EvaluationError}s.
 */
export class CompiledPolicy {
  readonly entrypoints: readonly string[];
  /** Built-in functions that the module calls but does not have. */
  readonly needs: readonly string[];
  readonly #module: WebAssembly.Module;
  #memory: PolicyMemory;
  readonly #mostPages: number;
  readonly #callBuiltin: CallBuiltin | undefined;
  readonly #reads: ReadonlyMap<string, readonly DocPath[]>;
  readonly #ids: ReadonlyMap<string, number>;
  readonly #builtins: ReadonlyMap<number, string>;
  /** End of the heap without documents. */
  readonly #base: Address;
  readonly #stash: Address | undefined;
  #exports: PolicyExports;
  /** The root of the documents. */
  #document: Address = 0;
  #odd = new OddNumbers('{}');
  /** Entrypoints that depend on {@link OddNumbers}. */
  #forGo: ReadonlySet<string> = new Set();
  /** End of the heap with documents. */
  #heap: Address;
  /** The highest end of the heap so far. */
  #touched: Address = 0;
  #isFresh = true;
  #broken: string | undefined;

  /**
   * Instantiates the module, without documents. Throws a plain `Error` for a module that is none,
   * or not within the limit.
   */
  constructor(module: WebAssembly.Module, options: CompiledPolicyOptions) {
    this.#module = module;
    this.#callBuiltin = options.callBuiltin;
    this.#reads = options.reads ?? new Map();
    this.#mostPages = Math.min(MOST_PAGES, Math.floor(options.memoryLimitBytes / PAGE_BYTES));
    this.#memory = this.#newMemory(options.documentBytes * HEAP_PER_JSON_BYTE);
    const exports = this.#instantiate();
    this.#exports = exports;
    this.#base = endOfHeap(exports);
    this.#stash = findStash(this.#memory, exports, this.#base);
    this.#heap = this.#base;
    this.#ids = new Map(this.#namedNumbers(exports.entrypoints()));
    this.entrypoints = [...this.#ids.keys()];
    this.#builtins = new Map(this.#namedNumbers(exports.builtins()).map(([name, id]) => [id, ownName(name)]));
    this.needs = [...this.#builtins.values()].filter((name) => !COMPUTED.has(name));
    this.setDocuments('{}');
  }

  /** Bytes of memory that have been in use: by the documents, and by evaluations beyond them. */
  get memoryBytes(): number {
    return Math.max(this.#heap, this.#touched);
  }

  /**
   * Bytes from the start of the memory to the end of the documents: evaluations use what is beyond.
   */
  get heapBytes(): number {
    return this.#heap;
  }

  /** Replaces all documents by a JSON object. */
  setDocuments(text: string): void {
    this.#changing(() => {
      const exports = this.#exports;
      exports.opa_heap_stash_clear();
      this.#reserve(this.#base, text.length * HEAP_PER_JSON_BYTE);
      exports.opa_heap_ptr_set(this.#base);
      this.#document = this.#value(withoutLoneSurrogates(text));
    });
    this.#odd = new OddNumbers(text);
    this.#findForGo();
  }

  /**
   * Changes documents in place, in order. The caller has checked that no path leads through a
   * scalar or an array, and that the root stays an object: everything else breaks the instance.
   */
  patch(ops: readonly DocumentOp[]): void {
    for (const { path, text } of ops) {
      if (path.length === 0) this.setDocuments(text ?? '{}');
      else this.#changing(() => this.#patch(path, text));
    }
    if (this.#odd.patch(ops)) this.#findForGo();
  }

  /**
   * The result of an entrypoint as OPA's REST API prints it; undefined if the decision is
   * undefined. Throws for an input that is not plain JSON (see `isPlainJson`), for documents that
   * may mean something else to Go (see `OddNumbers`), and for an error of the policy; the instance
   * remains usable unless the error says otherwise.
   */
  evaluate(entrypoint: string, input: string | undefined): string | undefined {
    const id = this.#ids.get(entrypoint);
    if (id === undefined) throw new EvaluationError('entrypoint', `${entrypoint} is not compiled`);
    if (input !== undefined && !isPlainJson(input))
      throw new EvaluationError('input', 'the input is not JSON, or may mean something else to the compiled policy');
    if (this.#forGo.has(entrypoint))
      throw new EvaluationError(
        'documents',
        'a document that it reads has numbers written like 1.0 or 1e3, or with many digits',
      );
    this.#assertUsable();
    try {
      const result = this.#eval(id, input);
      this.#noteEnd();
      return this.#result(result);
    } catch (error) {
      throw this.#failed(error);
    } finally {
      if (this.#touched > this.#heap + SPARE_BYTES) this.#shrink();
    }
  }

  /**
   * The document at a path as JSON; undefined if there is none. Elements of arrays have no path.
   */
  read(path: DocPath): string | undefined {
    this.#assertUsable();
    let at: Address | undefined = this.#document;
    for (const name of path) {
      at = memberAt(this.#memory, at, name);
      if (at === undefined) return undefined;
    }
    try {
      this.#exports.opa_heap_ptr_set(this.#heap);
      return goJson(parseTerm(this.#memory.textAt(this.#exports.opa_value_dump(at))));
    } catch (error) {
      throw this.#failed(error);
    }
  }

  #findForGo(): void {
    this.#forGo = new Set(this.entrypoints.filter((name) => this.#odd.areIn(this.#reads.get(name) ?? [[]])));
  }

  #instantiate(): PolicyExports {
    return instantiate(this.#module, this.#memory.memory, {
      abort: (message) => {
        throw new Abort(this.#memory.textAt(message));
      },
      builtin: (id, args) => this.#builtin(id, args),
    });
  }

  #namedNumbers(value: Address): [string, number][] {
    const text = this.#memory.textAt(this.#exports.opa_json_dump(value));
    return Object.entries(parseJson(text) as Record<string, number>);
  }

  #noteEnd(): void {
    const end = endOfHeap(this.#exports);
    if (end > this.#touched) this.#touched = end;
  }

  #reserve(heap: Address, bytes: number): void {
    reserve(this.#memory, this.#exports, { heap, bytes, mostPages: this.#mostPages });
  }

  #assertUsable(): void {
    if (this.#broken !== undefined) throw new EvaluationError('trap', this.#broken, { isBroken: true });
  }

  /** A change of the documents: whatever goes wrong in one leaves them in no known state. */
  #changing(change: () => void): void {
    this.#assertUsable();
    try {
      change();
      this.#exports.opa_heap_blocks_stash();
      this.#heap = endOfHeap(this.#exports);
    } catch (cause) {
      throw this.#break('the documents of a compiled policy could not be changed', cause);
    }
  }

  #patch(path: DocPath, text: string | undefined): void {
    const exports = this.#exports;
    if (text !== undefined) this.#reserve(this.#heap, text.length * HEAP_PER_JSON_BYTE);
    exports.opa_heap_ptr_set(this.#heap);
    exports.opa_heap_blocks_restore();
    const value = text === undefined ? 0 : this.#value(withoutLoneSurrogates(text));
    const at = this.#value(JSON.stringify(path));
    const code =
      text === undefined
        ? exports.opa_value_remove_path(this.#document, at)
        : exports.opa_value_add_path(this.#document, at, value);
    if (code !== 0) throw new Error(`the module refused a change (code ${code})`);
    exports.opa_value_free(at);
    // Blocks of the replaced value wait in a list that the stash forgets: an allocation from the
    // list of large blocks adds them to it.
    exports.opa_free(exports.opa_malloc(96));
  }

  /** Parses a text into a value on the heap. */
  #value(text: string): Address {
    const exports = this.#exports;
    const length = Buffer.byteLength(text);
    const at = exports.opa_malloc(length);
    this.#memory.bytes.write(text, at >>> 0, 'utf8');
    const value = exports.opa_value_parse(at, length);
    if (value === 0) throw new Error('the module cannot parse a value');
    exports.opa_free(at);
    return value;
  }

  #eval(id: number, input: string | undefined): Address {
    this.#isFresh = true;
    const heap = this.#heap;
    if (input === undefined) return this.#exports.opa_eval(0, id, this.#document, 0, 0, heap, 1);
    const room = this.#memory.bytes.length - heap;
    if (room <= input.length * 3) this.#reserve(heap, input.length * HEAP_PER_JSON_BYTE);
    if (this.#memory.bytes.length - heap < input.length * 3)
      throw new EvaluationError('memory', 'the input does not fit into the memory limit');
    const length = this.#memory.write(input, heap);
    return this.#exports.opa_eval(0, id, this.#document, heap, length, heap + length, 1);
  }

  /** From the dump of the set of results: `{{"result": ...}}` or `set()`. */
  #result(result: Address): string | undefined {
    const { bytes } = this.#memory;
    const at = result >>> 0;
    if (bytes[at] === LETTER_S) return undefined;
    const first = bytes[at + BEFORE_RESULT.length];
    if (first === LETTER_T) return 'true';
    if (first === LETTER_F) return 'false';
    const text = this.#memory.textAt(result);
    if (!text.startsWith(BEFORE_RESULT) || !text.endsWith(AFTER_RESULT))
      throw new Error(`unknown form of a result: ${text.slice(0, 40)}`);
    return goJson(parseTerm(text.slice(BEFORE_RESULT.length, -AFTER_RESULT.length)));
  }

  #builtin(id: number, args: readonly Address[]): Address {
    const name = this.#builtins.get(id) ?? `of number ${id}`;
    const texts = args.map((arg) => this.#memory.textAt(this.#exports.opa_value_dump(arg)));
    if (COMPUTED.has(name)) return this.#value(spelt(name, exactly(name, texts)));
    const isFresh = this.#isFresh;
    this.#isFresh = false;
    let result: string | undefined;
    try {
      if (this.#callBuiltin === undefined) throw new Error('there is nothing to call it with');
      result = this.#callBuiltin(name, `[${texts.join(',')}]`, isFresh);
    } catch (cause) {
      throw new BuiltinFailure(`${name}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    }
    return result === undefined ? 0 : this.#value(spelt(name, result));
  }

  /** The error of an evaluation; the instance is made usable again where that is possible. */
  #failed(cause: unknown): EvaluationError {
    if (cause instanceof EvaluationError) return cause;
    this.#noteEnd();
    if (cause instanceof Abort && cause.message.startsWith('opa_malloc'))
      return this.#break('a decision needs more memory than the limit permits', cause, 'memory');
    try {
      this.#restart();
    } catch (error) {
      return this.#break('a compiled policy failed', error);
    }
    if (cause instanceof Abort || cause instanceof BuiltinFailure)
      return new EvaluationError('policy', cause.message, { cause });
    return new EvaluationError('trap', cause instanceof Error ? cause.message : String(cause), { cause });
  }

  #break(message: string, cause: unknown, problem?: 'memory'): EvaluationError {
    const isMemory = problem ?? (cause instanceof Abort && cause.message.startsWith('opa_malloc'));
    const why = cause instanceof Error ? cause.message : String(cause);
    this.#broken = `${message}: ${why}`;
    return new EvaluationError(isMemory ? 'memory' : 'trap', this.#broken, { isBroken: true, cause });
  }

  #newMemory(documentBytes: number): PolicyMemory {
    const initial = Math.min(Math.ceil((documentBytes + WORK_BYTES) / PAGE_BYTES), this.#mostPages);
    return new PolicyMemory({ initial, maximum: this.#mostPages });
  }

  /**
   * Moves the documents into another memory: there is no other way to give back what was touched.
   */
  #shrink(): void {
    this.#touched = this.#heap;
    if (this.#broken !== undefined || this.#stash === undefined) return;
    let memory: PolicyMemory;
    try {
      memory = this.#newMemory(this.#heap);
    } catch {
      return; // there is no room for a second one: the present one stays as it is
    }
    this.#memory.bytes.copy(memory.bytes, this.#base, this.#base, this.#heap);
    this.#restart(memory);
  }

  /**
   * A new instance around the same documents. What ends in the midst of WebAssembly code leaves the
   * module's stack and its own data as they were at that moment. Documents are out of reach of an
   * evaluation, and so is the list of their free blocks. `memory`: where the documents are.
   */
  #restart(memory = this.#memory): void {
    if (this.#stash === undefined) throw new Error('the free blocks of its documents are not known');
    const blocks = copyOfStash(this.#memory, this.#stash);
    this.#memory = memory;
    memory.bytes.fill(0, 0, this.#base);
    const exports = this.#instantiate();
    if (endOfHeap(exports) !== this.#base) throw new Error('its heap starts at another address');
    blocks.copy(memory.bytes, this.#stash);
    exports.opa_heap_ptr_set(this.#heap);
    this.#exports = exports;
  }
}

/**
 * OPA's name of a function that the compiler of `engine/` renames, because its version in a module
 * is not exact.
 */
function ownName(name: string): string {
  return name.startsWith(RENAMED) ? name.slice(RENAMED.length) : name;
}

function exactly(name: string, args: readonly string[]): string {
  const result = exactResult(name, args);
  if (result === undefined) throw new BuiltinFailure(`${name}: Go knows the exact result`);
  return result;
}

/** A result with which a module can go on. */
function spelt(name: string, result: string): string {
  if (hasOtherSpelling(result))
    throw new BuiltinFailure(`${name}: Go goes on with a number that is written like 1.0 or 1e3`);
  return result;
}

function endOfHeap(exports: PolicyExports): Address {
  return exports.opa_heap_ptr_get() >>> 0;
}
