import type { CompiledSet } from './types.js';

/**
 * Some entrypoints cannot be compiled together: one of them is too much, or OPA's compiler fails.
 */
export class CompileFailure extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CompileFailure';
  }
}

/** What is compiled of some entrypoints. */
export interface MostTogether {
  readonly set: CompiledSet;
  /** Entrypoints without which the others compile, with their reasons. */
  readonly failed: ReadonlyMap<string, string>;
}

const NONE: CompiledSet = { wasm: undefined, entrypoints: [] };

/**
 * Compiles as many entrypoints together as can be: where `compile` rejects with a
 * {@link CompileFailure}, the ones that it fails for are found by halves, and left out. The first
 * ones are kept before the later ones.
 */
export async function mostTogether(
  paths: readonly string[],
  compile: (paths: readonly string[]) => Promise<CompiledSet>,
): Promise<MostTogether> {
  const failed = new Map<string, string>();
  let set = NONE;
  const added = async (good: readonly string[], more: readonly string[]): Promise<readonly string[]> => {
    const all = [...good, ...more];
    try {
      set = await compile(all);
      return all;
    } catch (error) {
      if (!(error instanceof CompileFailure)) throw error;
      const [only, ...others] = more;
      if (only !== undefined && others.length === 0) failed.set(only, error.message);
      if (others.length === 0) return good;
    }
    const half = more.length >> 1;
    return await added(await added(good, more.slice(0, half)), more.slice(half));
  };
  if (paths.length > 0) await added([], paths);
  return { set, failed };
}
