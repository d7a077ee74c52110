/**
 * The part of the WebAssembly API that is used here: the types of Node leave it out, and those of
 * browsers have much more.
 */
declare namespace WebAssembly {
  type ExportValue = ((...args: never) => unknown) | Global | Memory | Table;
  type Exports = Record<string, ExportValue>;
  type Imports = Record<string, Record<string, ExportValue | number>>;

  /** Compiled code; threads can share it. */
  class Module {
    constructor(bytes: Uint8Array);
    static exports(module: Module): readonly { readonly name: string; readonly kind: string }[];
    static imports(
      module: Module,
    ): readonly { readonly module: string; readonly name: string; readonly kind: string }[];
  }

  class Instance {
    constructor(module: Module, imports?: Imports);
    readonly exports: Exports;
  }

  class Memory {
    constructor(descriptor: { readonly initial: number; readonly maximum?: number });
    /** Another one after the memory has grown. */
    readonly buffer: ArrayBuffer;
    /** By pages of 64 KiB; returns the size before. */
    grow(pages: number): number;
  }

  class Global {
    readonly value: number;
  }

  class Table {
    readonly length: number;
  }

  class RuntimeError extends Error {}

  function validate(bytes: Uint8Array): boolean;
  function compile(bytes: Uint8Array): Promise<Module>;
  function instantiate(module: Module, imports?: Imports): Promise<Instance>;
}
