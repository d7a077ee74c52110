import { EngineRefusal } from '../../../embedded/vocabulary.js';
import { ModuleGraph, type Modules } from './module-graph.js';
import { closedModule, isClosedModule } from './rego-outline.js';

/** What {@link swapModules} works with. */
export interface SwapDeps {
  /**
   * Puts a module, or removes it where there is no text. Rejects with {@link EngineRefusal} if the
   * set would not compile.
   */
  readonly change: (id: string, rego: string | undefined) => Promise<void>;
  /**
   * Compiles the new set as a whole, before anything is closed for it. Rejects with
   * {@link EngineRefusal}.
   */
  readonly judge: () => Promise<void>;
}

/**
 * Replaces a set of modules in an engine that takes them one by one, and compiles all after each.
 * Modules that would decide on parts of both sets in between are *closed* first: replaced by one of
 * the same names that ends each evaluation in an error. So the answer of a package is at any time
 * that of the set before, or that of the new one, or an error. A package that depends on at most
 * one changed module is never closed, unless the engine takes the new set in no other way.
 *
 * Rejects with {@link EngineRefusal} if the new set is refused: then the engine holds a mixture,
 * and another swap puts it right.
 */
export async function swapModules(before: Modules, after: Modules, deps: SwapDeps): Promise<void> {
  const changed = new Set([...after.keys(), ...before.keys()].filter((id) => before.get(id) !== after.get(id)));
  if (changed.size === 0) return;
  const graph = new ModuleGraph(after, before);
  const swap = new Swap({ before, after, changed, graph }, deps);
  const steps: readonly (() => Promise<boolean>)[] = [
    () => swap.close(graph.mixing(changed)),
    // Former versions of other modules may be in the way.
    () => swap.close(graph.withReaders(swap.undone)),
    // So may closed ones, such as a rule that becomes one of another kind.
    () => swap.removeClosed(),
  ];
  let refused: EngineRefusal | undefined;
  for (const [index, step] of steps.entries()) {
    if (!(await step()) && index > 0) continue;
    refused = await swap.bring();
    if (refused === undefined) return;
    // A document is in the way: no module is.
    if (refused.problems.some(({ conflictPath }) => conflictPath !== undefined)) break;
  }
  throw refused ?? new Error('nothing was refused');
}

interface SwapSets {
  readonly before: Modules;
  readonly after: Modules;
  readonly changed: ReadonlySet<string>;
  readonly graph: ModuleGraph;
}

class Swap {
  readonly #sets: SwapSets;
  readonly #deps: SwapDeps;
  #isJudged = false;
  /** Modules that are yet to become what they shall be. */
  readonly #undone: Set<string>;
  /** Modules that the engine does not have as they were before, or that it keeps so. */
  readonly #touched = new Set<string>();
  readonly #closed = new Set<string>();

  constructor(sets: SwapSets, deps: SwapDeps) {
    this.#sets = sets;
    this.#deps = deps;
    this.#undone = new Set(sets.changed);
  }

  get undone(): ReadonlySet<string> {
    return this.#undone;
  }

  /**
   * Closes those that the engine has as they were before, readers first; removes what cannot be
   * closed. Returns whether there were any.
   */
  async close(ids: ReadonlySet<string>): Promise<boolean> {
    const { before } = this.#sets;
    const open = this.#readersFirst().filter((id) => ids.has(id) && before.has(id) && !this.#touched.has(id));
    if (open.length > 0 && !this.#isJudged) await this.#deps.judge();
    this.#isJudged ||= open.length > 0;
    for (const id of open) {
      this.#touched.add(id);
      const isGone = (await this.#isClosed(id, before.get(id))) || (await this.#refusal(id, undefined)) === undefined;
      if (isGone) this.#undone.add(id);
    }
    return open.length > 0;
  }

  /** Removes what is closed; returns whether there was anything. */
  async removeClosed(): Promise<boolean> {
    const closed = this.#readersFirst().filter((id) => this.#closed.has(id));
    for (const id of closed) await this.#refusal(id, undefined);
    return closed.length > 0;
  }

  #readersFirst(): string[] {
    return this.#sets.graph.groups.flat().reverse();
  }

  /**
   * Brings modules to what they shall be, each after those that it reads. Returns the first refusal
   * that stays.
   */
  async bring(): Promise<EngineRefusal | undefined> {
    const { after, graph } = this.#sets;
    for (;;) {
      const open = this.#undone.size;
      let first: EngineRefusal | undefined;
      /** Those that are refused, and those that would decide without them. */
      const missing = new Set<string>();
      const puts = graph.groups.map((group) => group.filter((id) => this.#undone.has(id) && after.has(id)));
      // Decisions continue meanwhile.
      const removals = [...this.#undone].filter((id) => !after.has(id)).map((id) => [id]);
      for (const group of [...puts, ...removals]) {
        if (group.some((id) => graph.readsOneOf(id, missing))) {
          for (const id of group) missing.add(id);
          continue;
        }
        // Those that need each other find each other's names.
        if (group.length > 1) for (const id of group) await this.#isClosed(id, after.get(id));
        for (const id of group) {
          const refusal = await this.#refusal(id, after.get(id));
          if (refusal !== undefined) {
            missing.add(id);
            first ??= refusal;
            continue;
          }
          this.#touched.add(id);
          this.#undone.delete(id);
        }
      }
      if (first === undefined || this.#undone.size === open) return first;
    }
  }

  /** Puts the closed form of a module; returns whether the engine took it. */
  async #isClosed(id: string, rego: string | undefined): Promise<boolean> {
    if (rego === undefined) return false;
    const closed = isClosedModule(rego) ? rego : closedModule(rego);
    if (closed === undefined || (closed !== rego && (await this.#refusal(id, closed)) !== undefined)) return false;
    this.#closed.add(id);
    return true;
  }

  async #refusal(id: string, rego: string | undefined): Promise<EngineRefusal | undefined> {
    try {
      await this.#deps.change(id, rego);
    } catch (error) {
      if (!(error instanceof EngineRefusal)) throw error;
      return error;
    }
    this.#closed.delete(id);
    return undefined;
  }
}
