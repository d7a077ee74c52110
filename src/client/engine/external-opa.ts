import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { DataOp } from '../desired/layers.js';
import { EngineRefusal, type EngineSeals, type PolicyEngine, type PolicySet, type Region } from './engine.js';
import { OpaEngine } from './opa-engine.js';
import { changeModules, dependencyOrder, isEnginesOwn, removeModules } from './opa-modules.js';
import type { PolicyCheck } from './opa-program.js';
import type { OpaRest } from './opa-rest.js';

type Change = { readonly id: string; readonly rego: string | undefined };

/**
 * An external OPA. Writes modules one by one under their repository paths (opal-protocol P5.9), only those that differ; checks them
 * together beforehand if an OPA program is available, and rolls back if one is refused.
 */
export class ExternalOpa extends OpaEngine implements PolicyEngine {
  readonly policyMode = 'modules';
  readonly seals: EngineSeals;
  readonly #check: PolicyCheck | undefined;
  readonly #log: Logger;
  /** Others may write there. */
  readonly isGuarded = false;
  /** The modules of the engine, as last listed. */
  #held = new Map<string, string>();
  /** The modules that this client wrote last; undefined if unknown: an earlier run may have written those in the engine. */
  #ours: ReadonlyMap<string, string> | undefined;

  constructor(deps: {
    rest: OpaRest;
    check: PolicyCheck | undefined;
    log: Logger;
    /** Reserved documents in addition to the marker. */
    reserved?: readonly DocPath[];
    /** How long a timed-out request may still take effect. */
    doubtMs?: number;
  }) {
    super(deps.rest, deps);
    this.seals = this.marker;
    this.#check = deps.check;
    this.#log = deps.log;
  }

  async check(policy: PolicySet, regions: readonly Region[], signal: AbortSignal): Promise<void> {
    await this.#check?.(policy, regions, signal);
  }

  roots(): readonly DocPath[] {
    return [];
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

  /** Makes the engine's modules equal to those of the policy; returns the ids of the modules that differed. */
  async #bring(policy: PolicySet, signal: AbortSignal): Promise<readonly string[]> {
    const ours = this.#ours;
    // Listed each time: others may write modules too.
    const held = await this.#list(signal);
    this.#held = held;
    const puts: Change[] = dependencyOrder(policy.modules)
      .filter((id) => held.get(id) !== policy.modules.get(id))
      .map((id) => ({ id, rego: policy.modules.get(id) }));
    const unknown = [...held.keys()].filter((id) => !policy.modules.has(id));
    // Modules of an earlier run are removed last, like those that a commit removes: decisions continue meanwhile.
    const strays = ours === undefined ? [] : unknown.filter((id) => !ours.has(id));
    const removals: Change[] = unknown.filter((id) => !strays.includes(id)).map((id) => ({ id, rego: undefined }));
    if (puts.length + unknown.length === 0) {
      this.#ours = policy.modules;
      return [];
    }
    if (puts.length > 0) await this.#check?.(policy, [], signal);
    // If a commit is refused, the modules of this client are restored, without the changes of others.
    const before = ours ?? new Map(held);
    await this.seals.changes(signal);
    try {
      // First: two modules with the same definitions would conflict, and neither would be effective.
      const gone = await removeModules(strays, { rest: this.rest, log: this.#log }, signal);
      for (const id of gone) held.delete(id);
      await this.#apply([...puts, ...removals], signal);
    } catch (error) {
      if (!(error instanceof EngineRefusal)) {
        this.#ours = undefined; // it is unknown what took effect
        this.seals.inDoubt();
        throw error;
      }
      await this.#putBack(before, strays, signal);
      throw error;
    }
    this.#ours = policy.modules;
    return [...puts.map(({ id }) => id), ...unknown];
  }

  async #apply(changes: readonly Change[], signal: AbortSignal): Promise<void> {
    const [refusal] = (await changeModules(changes, (change) => this.#change(change, signal))).values();
    if (refusal !== undefined) throw refusal;
  }

  async #change(change: Change, signal: AbortSignal): Promise<void> {
    if (change.rego === undefined) {
      await this.rest.deletePolicy(change.id, signal);
      this.#held.delete(change.id);
    } else {
      await this.rest.putPolicy(change.id, change.rego, signal);
      this.#held.set(change.id, change.rego);
    }
  }

  async #putBack(before: ReadonlyMap<string, string>, strays: readonly string[], signal: AbortSignal): Promise<void> {
    const now = this.#held;
    const changes: Change[] = [
      ...[...before].filter(([id, rego]) => now.get(id) !== rego).map(([id, rego]) => ({ id, rego })),
      ...[...now.keys()].filter((id) => !before.has(id) && !strays.includes(id)).map((id) => ({ id, rego: undefined })),
    ];
    try {
      await this.#apply(changes, signal);
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
