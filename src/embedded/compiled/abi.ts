/**
 * OPA's WebAssembly ABI, version 1.2 and later, as its Go SDK uses it (`internal/wasm/sdk` of OPA).
 */

/** An address in the memory of a module; 0 is no value. */
export type Address = number;

/**
 * Functions of a compiled policy. Those of the heap are not documented for use outside OPA: the
 * pinned version has them.
 */
export interface PolicyExports {
  readonly opa_malloc: (bytes: number) => Address;
  readonly opa_free: (at: Address) => void;
  readonly opa_heap_ptr_get: () => Address;
  /** Also empties the lists of free blocks. */
  readonly opa_heap_ptr_set: (at: Address) => void;
  /** Keeps the free blocks among the documents while evaluations move the end of the heap. */
  readonly opa_heap_blocks_stash: () => void;
  readonly opa_heap_blocks_restore: () => void;
  readonly opa_heap_stash_clear: () => void;
  readonly opa_value_parse: (text: Address, bytes: number) => Address;
  readonly opa_value_dump: (value: Address) => Address;
  readonly opa_value_free: (value: Address) => void;
  readonly opa_value_add_path: (document: Address, path: Address, value: Address) => number;
  readonly opa_value_remove_path: (document: Address, path: Address) => number;
  readonly opa_json_dump: (value: Address) => Address;
  readonly opa_eval: (
    reserved: 0,
    entrypoint: number,
    data: Address,
    input: Address,
    inputBytes: number,
    heap: Address,
    wantValue: 0 | 1,
  ) => Address;
  readonly builtins: () => Address;
  readonly entrypoints: () => Address;
  readonly opa_wasm_abi_version?: WebAssembly.Global;
  readonly opa_wasm_abi_minor_version?: WebAssembly.Global;
}

/** What a module calls. */
export interface PolicyImports {
  /** Ends the evaluation: has to throw. */
  readonly abort: (message: Address) => never;
  /** Calls a builtin that the module does not have; 0 is undefined. */
  readonly builtin: (id: number, args: readonly Address[]) => Address;
}

/** Bytes of a page of WebAssembly memory. */
export const PAGE_BYTES = 65_536;
/** As many as 32 bit addresses reach. */
export const MOST_PAGES = 65_536;

/**
 * Instantiates a module. Throws a plain `Error` for a module that is none of OPA's, or of an older
 * ABI.
 */
export function instantiate(
  module: WebAssembly.Module,
  memory: WebAssembly.Memory,
  { abort, builtin }: PolicyImports,
): PolicyExports {
  const call = (id: number, _context: Address, ...args: Address[]): Address => builtin(id, args);
  const env = {
    memory,
    opa_abort: abort,
    opa_println: () => undefined, // print() is for those who write a policy
    ...Object.fromEntries([0, 1, 2, 3, 4].map((count) => [`opa_builtin${count}`, call])),
  };
  const exports = new WebAssembly.Instance(module, { env }).exports as unknown as PolicyExports;
  const major = exports.opa_wasm_abi_version?.value;
  const minor = exports.opa_wasm_abi_minor_version?.value;
  if (major === 1 && minor !== undefined && minor >= 2) return exports;
  throw new Error(`a compiled policy has version ${major}.${minor} of OPA's WebAssembly ABI; 1.2 or later is needed`);
}
