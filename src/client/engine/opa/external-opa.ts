import { EngineRefusal, type Region } from '../../../embedded/vocabulary.js';
import { failureFields } from '../../../lib/errors.js';
import type { Logger } from '../../../lib/observe/log.js';
import type { DocPath } from '../../../wire/doc-path.js';
import type { DataOp } from '../../desired/layers.js';
import type { EngineSeals, PolicyEngine, PolicySet } from '../engine.js';
import type { Modules } from '../modules/module-graph.js';
import { swapModules } from '../modules/module-swap.js';
import { OpaEngine } from './opa-engine.js';
import { isEnginesOwn, removeModules } from './opa-modules.js';
import type { PolicyCheck } from './opa-program.js';
import type { OpaRest } from './opa-rest.js';

/**
 * An external OPA, which takes modules one by one. Writes them under their repository paths
 * (opal-protocol P5.9), only those that differ; the whole set is judged before, and takes the place
 * of the former one as {@link swapModules} says, or not at all.
 */
export class ExternalOpa extends OpaEngine implements PolicyEngine {
  readonly policyMode = 'modules';
  readonly seals: EngineSeals;
  readonly #check: PolicyCheck | undefined;
  readonly #judge: PolicyCheck | undefined;
  readonly #log: Logger;
  /** Others may write there. */
  readonly isGuarded = false;
  /**
   * The modules that this client wrote last; undefined if unknown: an earlier run may have written
   * those in the engine.
   */
  #ours: Modules | undefined;

  constructor(deps: {
    rest: OpaRest;
    /** Before each policy, if there is one. */
    check: PolicyCheck | undefined;
    /** Before decisions are held up for a policy: costs more than `check`. */
    judge?: PolicyCheck | undefined;
    log: Logger;
    /** Reserved documents in addition to the marker. */
    reserved?: readonly DocPath[];
    /** How long a timed-out request may still take effect. */
    doubtMs?: number;
  }) {
    super(deps.rest, deps);
    this.seals = this.marker;
    this.#check = deps.check;
    this.#judge = deps.judge;
    this.#log = deps.log;
  }

  async check(policy: PolicySet, regions: readonly Region[], signal: AbortSignal): Promise<void> {
    await this.#check?.(policy, regions, signal);
  }

  roots(): readonly DocPath[] {
    return [];
  }

  async goesOn(signal: AbortSignal): Promise<boolean> {
    try {
      await this.marker.isThere(signal);
      return true;
    } catch (error) {
      return !isRefusedConnection(error); // one that hangs, or lets nobody in, may decide all the same
    }
  }

  async hasOwnRules(signal: AbortSignal): Promise<boolean> {
    return (await this.#list(signal)).size > 0;
  }

  async activate(
    policy: PolicySet,
    _roots: readonly DocPath[],
    _regions: readonly unknown[],
    signal: AbortSignal,
  ): Promise<void> {
    await this.#bring(policy, signal);
  }

  tidy(policy: PolicySet, signal: AbortSignal): Promise<readonly string[]> {
    return this.#bring(policy, signal);
  }

  /**
   * Makes the engine's modules equal to those of the policy; returns the ids of the modules that
   * differed.
   */
  async #bring(policy: PolicySet, signal: AbortSignal): Promise<readonly string[]> {
    const ours = this.#ours;
    // Listed each time: others may write modules too.
    const held = await this.#list(signal);
    const differing = [...policy.modules].filter(([id, rego]) => held.get(id) !== rego).map(([id]) => id);
    const unknown = [...held.keys()].filter((id) => !policy.modules.has(id));
    // Modules of an earlier run are removed last, like those that a commit removes: decisions
    // continue meanwhile.
    const strays = ours === undefined ? [] : unknown.filter((id) => !ours.has(id));
    if (differing.length + unknown.length === 0) {
      this.#ours = policy.modules;
      return [];
    }
    if (differing.length > 0) await this.#check?.(policy, [], signal);
    // If a commit is refused, the modules of this client are restored, without the changes of
    // others.
    const before = ours ?? new Map(held);
    await this.seals.changes(signal);
    try {
      // First: two modules with the same definitions would conflict, and neither would be
      // effective.
      await removeModules(strays, { rest: this.rest, log: this.#log }, signal);
      for (const id of strays) held.delete(id); // those that stay are not ours to change
      await this.#swap(held, policy.modules, signal, async () => this.#judge?.(policy, [], signal));
    } catch (error) {
      if (!(error instanceof EngineRefusal)) {
        this.#ours = undefined; // it is unknown what took effect
        this.seals.inDoubt();
        throw error;
      }
      await this.#putBack(held, before, signal);
      throw error;
    }
    this.#ours = policy.modules;
    return [...differing, ...unknown];
  }

  /** Brings the engine from the modules that it holds, which follows each change, to others. */
  #swap(held: Map<string, string>, after: Modules, signal: AbortSignal, judge: () => Promise<void>): Promise<void> {
    const change = async (id: string, rego: string | undefined): Promise<void> => {
      if (rego === undefined) {
        await this.rest.deletePolicy(id, signal);
        held.delete(id);
      } else {
        await this.rest.putPolicy(id, rego, signal);
        held.set(id, rego);
      }
    };
    return swapModules(new Map(held), after, { change, judge });
  }

  async #putBack(held: Map<string, string>, before: Modules, signal: AbortSignal): Promise<void> {
    try {
      await this.#swap(held, before, signal, async () => undefined); // it was accepted once
    } catch (error) {
      this.#ours = undefined;
      this.seals.inDoubt();
      this.#log.error(failureFields(error), 'the policy before a refused one could not be put back whole');
      throw error instanceof EngineRefusal ? new Error(error.message, { cause: error }) : error;
    }
  }

  /** Lists the modules of the engine, without the engine's own. */
  async #list(signal: AbortSignal): Promise<Map<string, string>> {
    const list = await this.rest.listPolicies(signal);
    return new Map(list.filter((listed) => !isEnginesOwn(listed)).map(({ id, raw }) => [id, raw]));
  }

  async write(ops: readonly DataOp[], signal: AbortSignal, shells: readonly DocPath[]): Promise<void> {
    await this.seals.changes(signal);
    try {
      await this.rest.write(ops, signal);
      await this.rest.removeShells(shells, signal);
    } catch (error) {
      if (!(error instanceof EngineRefusal)) this.seals.inDoubt();
      throw error;
    }
  }

  startAfresh(): void {
    this.#ours = undefined;
    this.rest.reset();
  }
}

/** Nothing listens there. */
function isRefusedConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ('code' in error && error.code === 'ECONNREFUSED') || isRefusedConnection(error.cause);
}
