import { EngineRefusal } from '../../embedded/vocabulary.js';
import { outermost } from '../../lib/json/path-tree.js';
import { type DocPath, isAtOrBelow, pathsOverlap } from '../../wire/doc-path.js';
import { compareRank, type Layer, LayerSet, replaces, STATIC_ERA } from '../desired/layers.js';
import type { PolicyEngine, PolicySet } from '../engine/engine.js';
import { packageRoots } from '../engine/modules/bundle-roots.js';
import type { ArrivingBody } from '../fetch/arriving-file.js';
import {
  assertNotReserved,
  assertPackagesNotReserved,
  assertRoomFor,
  type BlockedLayer,
  colliding,
  isReserved,
} from './collisions.js';
import { type EngineContent, EngineCopy, type EngineUse, NO_POLICY, regionsOf, without } from './engine-copy.js';
import { type LayerChange, Step } from './step.js';

/**
 * Brings the engine from what it holds to what it should hold. Each call is one step that is either
 * taken whole or leaves the engine as it was; after a transient failure the next step writes the
 * paths in doubt again.
 */
export class Applier {
  /** What the engine holds. */
  readonly held: EngineCopy;

  constructor(engine: PolicyEngine, use: EngineUse) {
    this.held = new EngineCopy(engine, use);
  }

  /**
   * Starts to send a document that will be written here; nothing changes by that. Skipped where it
   * would be written together with others that overlap, or as a part of the policy.
   */
  prepareUpload(path: DocPath, arriving: ArrivingBody): void {
    if (this.held.closed(this.held.roots).some((other) => pathsOverlap(other, path))) return;
    if (this.held.layers.overlapping(path).some((layer) => layer.path.length !== path.length)) return;
    this.held.engine.prepareUpload?.(path, arriving);
  }

  /**
   * Applies a change of documents and drops what it supersedes. Returns the layers that the engine
   * no longer holds. A document that comes to light by that where a policy is is blocked, as in an
   * engine that starts now. Throws {@link EngineRefusal} when the engine refuses the change: then
   * nothing changed.
   */
  async applyLayers(change: LayerChange, signal: AbortSignal): Promise<readonly Layer[]> {
    assertNotReserved(change.set, this.held.engine.reserved);
    const superseded = change.set.flatMap((layer) => this.#supersededBy(layer));
    const drop = new Set([...change.drop, ...superseded.map((layer) => layer.id)]);
    for (const layer of change.set) drop.delete(layer.id);
    const dropped = [...drop].flatMap((id) => this.held.layers.get(id) ?? this.held.blocked.get(id)?.layer ?? []);
    const revealed = new Map<string, BlockedLayer>();
    for (;;) {
      const step = this.#begin({ set: change.set, drop: [...drop, ...revealed.keys()] });
      const refused = new Map<string, string>();
      try {
        await this.#applyStep(step, change.set, refused, signal);
        break;
      } catch (error) {
        const found =
          error instanceof EngineRefusal && refused.size === 0 ? colliding(this.held.layers, error, revealed) : [];
        step.undo();
        // A refusal after a part was written: that part is undone now, since no later step may
        // come.
        if (error instanceof EngineRefusal) await this.held.settleDoubts(signal);
        const isOwn = found.some(({ layer }) => change.set.some(({ id }) => id === layer.id));
        if (found.length === 0 || isOwn) throw error;
        for (const entry of found) revealed.set(entry.layer.id, entry);
      }
    }
    for (const id of [...drop, ...change.set.map((layer) => layer.id)]) this.held.unblock(id);
    for (const entry of revealed.values()) this.held.block(entry);
    return dropped;
  }

  /** `refused`: what the patches of the layers cannot do, by layer. */
  async #applyStep(
    step: Step,
    layers: readonly Layer[],
    refused: Map<string, string>,
    signal: AbortSignal,
  ): Promise<void> {
    const roots = this.#rootsAfter(step);
    const inRoots = step.opsIn(roots, this.held.packages);
    const regionsChange = this.held.areRegionsDoubtful || roots !== this.held.roots || inRoots.length > 0;
    const ops = step.ops(this.held.closed(roots), refused);
    this.held.assertRoomNear(step, roots);
    for (const layer of layers) {
      const reason = refused.get(layer.id);
      if (reason !== undefined) throw new EngineRefusal(reason, [{ message: reason, conflictPath: layer.path }]);
    }
    const gone = without(this.held.roots, roots);
    if (regionsChange && this.held.policy !== undefined)
      await this.held.bring(this.held.policy, roots, inRoots, signal);
    try {
      await this.held.clear(layers, ops, signal);
      await this.held.write(ops, signal);
    } catch (error) {
      if (regionsChange) this.held.doubtRegions();
      // The engine erased what lay below the roots that it lost.
      this.held.doubt(gone);
      throw error;
    }
  }

  /**
   * The roots after a step: one that stayed for its documents only, and has none any more, is
   * removed. It must not keep out a value that no package forbids.
   */
  #rootsAfter(step: Step): readonly DocPath[] {
    const isEmpty = (root: DocPath): boolean => step.touches(root) && !this.held.layers.isObjectAt(root);
    if (this.held.policy === undefined || !this.held.roots.some(isEmpty)) return this.held.roots;
    const left = this.held.roots.filter((root) => !isEmpty(root));
    const roots = this.held.engine.roots(this.held.policy, left);
    return without(this.held.roots, roots).length === 0 ? this.held.roots : roots;
  }

  #supersededBy(layer: Layer): Layer[] {
    if (!replaces(layer)) return [];
    const older = (other: Layer): boolean => other.rank.era !== STATIC_ERA && compareRank(other.rank, layer.rank) < 0;
    const blocked = [...this.held.blocked.values()].map((entry) => entry.layer);
    return [
      ...this.held.layers.atOrBelow(layer.path),
      ...blocked.filter((other) => isAtOrBelow(other.path, layer.path)),
    ].filter(older);
  }

  /**
   * Records that the engine refuses a layer; it is tried again with the next policy. What the layer
   * supersedes is removed all the same: a client that starts now never hears of it, and both must
   * end alike. Returns what was dropped.
   */
  async withhold(layer: Layer, reason: string, signal: AbortSignal): Promise<readonly Layer[]> {
    const older = this.#supersededBy(layer);
    const dropped =
      older.length === 0 ? [] : await this.applyLayers({ set: [], drop: older.map(({ id }) => id) }, signal);
    this.held.block({ layer, reason });
    return dropped;
  }

  /**
   * Applies a policy with its static documents, and with it every blocked layer that the new policy
   * allows. Documents that collide with the new rules are withheld (policy wins). Throws
   * {@link EngineRefusal} when the policy itself, or its own static data, is refused: then nothing
   * changed.
   *
   * The first policy comes with all `documents` that are here, in the order of `EngineCopy.load`:
   * no rule decides without them.
   */
  async applyPolicy(
    policy: PolicySet,
    statics: readonly Layer[],
    signal: AbortSignal,
    documents: () => readonly Layer[] = () => [],
  ): Promise<void> {
    const own = layerSet(statics);
    if (this.held.isEmpty) {
      await this.#judge(policy, own, layerSet(documents()), signal);
      await this.held.load(this.#firstContent(policy, statics, documents()), signal);
      return;
    }
    const oldStatics = [...this.held.layers.all()].filter((layer) => layer.rank.era === STATIC_ERA);
    await this.#judge(policy, own, this.held.layers, signal, oldStatics);
    const waiting = [...this.held.blocked.values()];
    // No policy makes room for what lies where the client has its own documents.
    const withheld = new Map(
      [...this.held.blocked].filter(([, { layer }]) => isReserved(layer, this.held.engine.reserved)),
    );
    const lasting = withheld.size;
    const before = { policy: this.held.policy, roots: this.held.roots };
    // Documents that this commit removes and its rules collide with are removed first.
    let dataFirst = this.#isInTheWay(policy);
    let isCleared = false;
    for (;;) {
      const step = this.#begin({
        set: [...statics, ...waiting.map((entry) => entry.layer).filter((layer) => !withheld.has(layer.id))],
        drop: [...oldStatics.map((layer) => layer.id), ...withheld.keys()],
      });
      try {
        await this.#applyPolicyStep(policy, step, dataFirst || withheld.size > lasting, signal);
        this.held.blockOnly(withheld.values());
        return;
      } catch (error) {
        const found = error instanceof EngineRefusal ? colliding(this.held.layers, error, withheld) : [];
        step.undo();
        for (const entry of found) withheld.set(entry.layer.id, entry);
        if (found.length > 0) continue;
        // One module at a time, an engine refuses a rule where a document of the commit before
        // still lies.
        const mayBeOld =
          error instanceof EngineRefusal && error.problems.some(({ conflictPath }) => conflictPath !== undefined);
        if (mayBeOld && !dataFirst && this.held.takesDocuments && this.held.engine.policyMode === 'modules') {
          dataFirst = true;
          continue;
        }
        if (!isCleared && (await this.held.clearStrangers(error, own, signal))) {
          isCleared = true;
          continue;
        }
        // The documents of this commit do not fit its own rules: the last good policy is restored.
        if (this.held.policy !== before.policy) await this.#putBack(before, signal);
        if (error instanceof EngineRefusal) await this.held.settleDoubts(signal);
        throw error;
      }
    }
  }

  /**
   * What an empty engine is given with its first policy: what cannot be there beside it is blocked
   * from the beginning.
   */
  #firstContent(policy: PolicySet, statics: readonly Layer[], documents: readonly Layer[]): EngineContent {
    const { reserved } = this.held.engine;
    const all = layerSet([...statics, ...documents]);
    const blocked = new Map<string, BlockedLayer>();
    const block = (layer: Layer, reason: string): void => {
      all.delete(layer.id);
      blocked.set(layer.id, { layer, reason });
    };
    for (const layer of documents) {
      const refusal = refusalOf(() => assertNotReserved([layer], reserved));
      if (refusal !== undefined) block(layer, refusal.message);
    }
    const places = [...this.held.engine.roots(policy, []), ...packageRoots(policy)];
    for (;;) {
      const refusal = refusalOf(() => this.held.assertRoom(all, places));
      if (refusal === undefined) break;
      const found = colliding(all, refusal, blocked);
      if (found.length === 0) throw refusal;
      for (const { layer } of found) block(layer, refusal.message);
    }
    const refused = new Map<string, string>();
    for (const { path, content } of documents) if (content.kind === 'patch') all.compose(path, refused);
    for (const layer of documents) {
      const reason = refused.get(layer.id);
      if (reason !== undefined) block(layer, reason);
    }
    return { policy, layers: [...all.all()], blocked: [...blocked.values()] };
  }

  /** True when the engine holds a value without members at or above one of the packages. */
  #isInTheWay(policy: PolicySet): boolean {
    return refusalOf(() => assertRoomFor(this.held.layers, packageRoots(policy), { policy })) !== undefined;
  }

  /**
   * Puts the policy before back in. The documents of roots that go with the refused policy stay in
   * the bundle: the engine erases what lies below a root that it loses.
   */
  async #putBack(
    before: { policy: PolicySet | undefined; roots: readonly DocPath[] },
    signal: AbortSignal,
  ): Promise<void> {
    const held = this.held.roots.filter((root) => this.held.layers.isObjectAt(root));
    const roots = this.held.engine.roots(before.policy ?? NO_POLICY, [...before.roots, ...held]);
    await this.held.reactivate(before.policy, roots, signal);
  }

  /**
   * A policy is judged by itself: dynamic documents that stand over its static data must not decide
   * whether it is accepted, or engines would differ by what came first. The engine's own activation
   * does it where there are none. `accepted`: the static documents that the engine has; those of a
   * policy with the same modules were judged with it.
   */
  async #judge(
    policy: PolicySet,
    alone: LayerSet,
    beside: LayerSet,
    signal: AbortSignal,
    accepted: readonly Layer[] = [],
  ): Promise<void> {
    const places = packageRoots(policy);
    assertNotReserved([...alone.all()], this.held.engine.reserved);
    assertPackagesNotReserved(policy, this.held.engine.reserved, this.held.engine.policyMode === 'bundle');
    assertRoomFor(alone, places, { policy });
    this.held.assertRoom(alone, places);
    const regions = regionsOf(alone, places);
    const judged = this.held.hasModulesOf(policy) ? regionsOf(layerSet(accepted), places) : [];
    const known = new Map(judged.map(({ path, text }) => [JSON.stringify(path), text]));
    const isMasked = regions.some(
      ({ path, text }) =>
        known.get(JSON.stringify(path)) !== text &&
        beside.overlapping(path).some((layer) => layer.rank.era !== STATIC_ERA),
    );
    if (isMasked) await this.held.engine.check(policy, regions, signal);
  }

  async #applyPolicyStep(policy: PolicySet, step: Step, dataFirst: boolean, signal: AbortSignal): Promise<void> {
    const held = this.held.roots.filter((root) => this.held.layers.isObjectAt(root));
    const roots = this.held.engine.roots(policy, held);
    const ops = step.ops(this.held.closed(roots), new Map());
    this.held.assertRoom(this.held.layers, this.held.roomOf(roots, packageRoots(policy)));
    // What is in the way of the policy has to go first; the roots that are still active take no
    // such write.
    const isEarly = dataFirst && this.held.takesDocuments;
    const early = isEarly ? step.ops(this.held.closed(outermost([...this.held.roots, ...roots])), new Map()) : [];
    await this.held.write(early, signal);
    try {
      await this.held.bring(policy, roots, step.opsIn(roots, this.held.packages), signal);
    } catch (error) {
      if (isEarly) await this.held.write(step.reverseOps(this.held.closed(this.held.roots)), signal);
      this.held.leave(early.map(({ path }) => path.slice(0, -1)));
      throw error;
    }
    const done = new Set(early.map(({ path }) => JSON.stringify(path)));
    await this.held.write(
      ops.filter(({ path }) => !done.has(JSON.stringify(path))),
      signal,
    );
  }

  #begin(change: LayerChange): Step {
    return new Step(this.held.layers, change);
  }
}

function layerSet(layers: readonly Layer[]): LayerSet {
  const set = new LayerSet();
  for (const layer of layers) set.set(layer);
  return set;
}

function refusalOf(check: () => void): EngineRefusal | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof EngineRefusal) return error;
    throw error;
  }
}
