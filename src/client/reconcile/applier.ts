import { members } from '../../lib/json-text.js';
import { type DocPath, isAtOrBelow, pathsOverlap } from '../../wire/doc-path.js';
import { isObject, nodeText } from '../../wire/json-node.js';
import type { DataOp } from '../desired/diff.js';
import { diffNodes } from '../desired/diff.js';
import { compareRank, type Layer, LayerSet, replaces, STATIC_ERA } from '../desired/layers.js';
import { outermost } from '../desired/path-index.js';
import { EngineRefusal, type PolicyEngine, type PolicySet, type Region } from '../engine/engine.js';
import { packageRoots } from '../engine/roots.js';
import type { ArrivingBody } from '../fetch/arriving-file.js';
import {
  assertNotReserved,
  assertPackagesNotReserved,
  assertRoomFor,
  type BlockedLayer,
  colliding,
  isReserved,
  OWN_DOCUMENTS,
} from './collisions.js';
import { inChunks, type LayerChange, Step } from './step.js';

/** All that an engine holds, and what it refuses. */
export interface EngineContent {
  readonly policy: PolicySet | undefined;
  readonly layers: readonly Layer[];
  readonly blocked: readonly BlockedLayer[];
}

const NO_POLICY: PolicySet = { hash: '', modules: new Map() };

/**
 * Knows what the engine holds, and brings it from there to what it should hold. Every call is one step that is either
 * taken whole or leaves the engine as it was; after a transient failure the paths in doubt are written again with the
 * next step. Calls are made one at a time.
 */
export class Applier {
  readonly #engine: PolicyEngine;
  readonly #layers = new LayerSet();
  readonly #blocked = new Map<string, BlockedLayer>();
  #policy: PolicySet | undefined;
  #roots: readonly DocPath[] = [];
  /** Paths whose content is in doubt since a call of unknown outcome. */
  #doubtful: DocPath[] = [];
  #regionsDoubtful = false;
  readonly #watchers: ((paths: readonly DocPath[]) => void)[] = [];

  constructor(engine: PolicyEngine) {
    this.#engine = engine;
  }

  /** The policy that the engine holds. */
  get policy(): PolicySet | undefined {
    return this.#policy;
  }

  /** Layers that are withheld because the engine refuses them. */
  get blocked(): ReadonlyMap<string, BlockedLayer> {
    return this.#blocked;
  }

  /** The layers that the engine holds. */
  get layers(): LayerSet {
    return this.#layers;
  }

  /**
   * Says that a document arrives that will be written here, so that the engine can take it beforehand; nothing changes by that.
   * Of no use where it would be written together with others that overlap, or as a part of the policy.
   */
  prepareUpload(path: DocPath, arriving: ArrivingBody): void {
    if (this.#closed(this.#roots).some((other) => pathsOverlap(other, path))) return;
    if (this.#layers.overlapping(path).some((layer) => layer.path.length !== path.length)) return;
    this.#engine.prepareUpload?.(path, arriving);
  }

  /**
   * Fills an engine that holds nothing of ours but the marker with everything at once: documents, then policy. Throws
   * {@link EngineRefusal} when the engine refuses a part: then it, and this, hold nothing again.
   */
  async load(content: EngineContent, signal: AbortSignal): Promise<void> {
    this.adopt(content);
    const places = outermost(content.layers.map((layer) => layer.path));
    try {
      await this.#fill(signal);
    } catch (error) {
      this.#forget(content);
      const { policy } = content;
      // What went in goes out again with the next step, or now.
      this.#doubtful = places.flatMap((path) => (path.length === 0 ? topLevel(content.layers) : [path]));
      if (error instanceof EngineRefusal) {
        if (policy !== undefined) await this.#engine.activate(NO_POLICY, [], [], signal);
        await this.settleDoubts(signal);
      }
      throw error;
    }
  }

  /**
   * Takes for granted that the engine holds this already, apart from its modules: those are compared with the next step.
   * Throws {@link EngineRefusal} for what does not fit together, or with the client's own documents: then this holds
   * nothing.
   */
  adopt(content: EngineContent): void {
    if (!this.isEmpty) throw new Error('only an empty engine is loaded');
    const { policy, layers, blocked } = content;
    for (const layer of layers) this.#layers.set(layer);
    for (const entry of blocked) this.#blocked.set(entry.layer.id, entry);
    this.#policy = policy;
    this.#roots = policy === undefined ? [] : this.#engine.roots(policy, []);
    this.#regionsDoubtful = policy !== undefined;
    try {
      const { reserved, policyMode } = this.#engine;
      assertNotReserved(layers, reserved);
      if (policy !== undefined) {
        assertPackagesNotReserved(packageRoots(policy), reserved, policyMode === 'bundle');
      }
      assertRoomFor(this.#layers, this.#roots);
      assertRoomFor(this.#layers, this.#reservedParents(), OWN_DOCUMENTS);
    } catch (error) {
      this.#forget(content);
      throw error;
    }
  }

  #forget({ layers }: EngineContent): void {
    for (const layer of layers) this.#layers.delete(layer.id);
    this.#blocked.clear();
    this.#policy = undefined;
    this.#roots = [];
    this.#regionsDoubtful = false;
  }

  /** True when the engine is known to hold exactly what this says. */
  get isCertain(): boolean {
    return this.#doubtful.length === 0 && !this.#regionsDoubtful;
  }

  /** True while the engine holds nothing of ours. */
  get isEmpty(): boolean {
    return this.#policy === undefined && this.#layers.size === 0 && this.#blocked.size === 0;
  }

  /**
   * Applies a change of documents and drops what it supersedes. Answers the layers that the engine no longer holds.
   * Throws {@link EngineRefusal} when the engine refuses the change: then nothing changed.
   */
  async applyLayers(change: LayerChange, signal: AbortSignal): Promise<readonly Layer[]> {
    assertNotReserved(change.set, this.#engine.reserved);
    const superseded = change.set.flatMap((layer) => this.#supersededBy(layer));
    const drop = new Set([...change.drop, ...superseded.map((layer) => layer.id)]);
    for (const layer of change.set) drop.delete(layer.id);
    const dropped = [...drop].flatMap((id) => this.#layers.get(id) ?? this.#blocked.get(id)?.layer ?? []);
    const step = this.#begin({ set: change.set, drop: [...drop] });
    try {
      const refused = new Map<string, string>();
      const regionsChange = this.#regionsDoubtful || step.regionsDiffer();
      const roots = this.#rootsAfter(step);
      const ops = step.ops(this.#closed(roots), refused);
      assertRoomFor(
        this.#layers,
        roots.filter((root) => step.touches(root)),
      );
      assertRoomFor(
        this.#layers,
        this.#reservedParents().filter((path) => step.touches(path)),
        OWN_DOCUMENTS,
      );
      for (const layer of change.set) {
        const reason = refused.get(layer.id);
        if (reason !== undefined) throw new EngineRefusal(reason, [{ message: reason, conflictPath: layer.path }]);
      }
      const gone = this.#roots.filter((root) => !roots.includes(root));
      if (regionsChange && this.#policy !== undefined) await this.#activate(this.#policy, roots, signal);
      try {
        await this.#clear(change.set, ops, signal);
        await this.#write(ops, signal);
      } catch (error) {
        this.#regionsDoubtful ||= regionsChange;
        // The engine erased what lay below the roots that it lost.
        this.#doubtful = outermost([...this.#doubtful, ...gone]);
        throw error;
      }
    } catch (error) {
      step.undo();
      // A refusal after a part went in: that part goes back now, since no later step need come.
      if (error instanceof EngineRefusal) await this.settleDoubts(signal);
      throw error;
    }
    for (const id of [...drop, ...change.set.map((layer) => layer.id)]) this.#blocked.delete(id);
    return dropped;
  }

  /**
   * The roots after a step: one that stayed for its documents only, and has none any more, goes. It must not keep a value
   * out that no package stands in the way of.
   */
  #rootsAfter(step: Step): readonly DocPath[] {
    const isEmpty = (root: DocPath): boolean => step.touches(root) && !isObject(this.#layers.compose(root));
    if (this.#policy === undefined || !this.#roots.some(isEmpty)) return this.#roots;
    return this.#engine.roots(
      this.#policy,
      this.#roots.filter((root) => !isEmpty(root)),
    );
  }

  #supersededBy(layer: Layer): Layer[] {
    if (!replaces(layer)) return [];
    const older = (other: Layer): boolean => other.rank.era !== STATIC_ERA && compareRank(other.rank, layer.rank) < 0;
    const blocked = [...this.#blocked.values()].map((entry) => entry.layer);
    return [
      ...this.#layers.atOrBelow(layer.path),
      ...blocked.filter((other) => isAtOrBelow(other.path, layer.path)),
    ].filter(older);
  }

  /**
   * Records that the engine refuses a layer; it is tried again with the next policy. What the layer supersedes goes all
   * the same: a client that starts now is never told of it, and both must end alike. Answers what was dropped.
   */
  async withhold(layer: Layer, reason: string, signal: AbortSignal): Promise<readonly Layer[]> {
    const older = this.#supersededBy(layer);
    const dropped =
      older.length === 0 ? [] : await this.applyLayers({ set: [], drop: older.map(({ id }) => id) }, signal);
    this.#blocked.set(layer.id, { layer, reason });
    return dropped;
  }

  /** Forgets a blocked layer that is no longer wanted. */
  unblock(id: string): void {
    this.#blocked.delete(id);
  }

  /**
   * Applies a policy with its static documents, and with it every blocked layer that the new policy allows. Documents
   * that collide with the new rules are withheld (policy wins). Throws {@link EngineRefusal} when the policy itself, or
   * its own static data, is refused: then nothing changed.
   */
  async applyPolicy(policy: PolicySet, statics: readonly Layer[], signal: AbortSignal): Promise<void> {
    await this.#judge(policy, statics, signal);
    const oldStatics = [...this.#layers.all()].filter((layer) => layer.rank.era === STATIC_ERA);
    const waiting = [...this.#blocked.values()];
    // No policy makes room for what lies where the client has its own documents.
    const withheld = new Map([...this.#blocked].filter(([, { layer }]) => isReserved(layer, this.#engine.reserved)));
    const lasting = withheld.size;
    const before = { policy: this.#policy, roots: this.#roots };
    // What is in the way of the new rules and goes with this commit has to go first.
    let dataFirst = this.#isInTheWay(policy);
    for (;;) {
      const step = this.#begin({
        set: [...statics, ...waiting.map((entry) => entry.layer).filter((layer) => !withheld.has(layer.id))],
        drop: [...oldStatics.map((layer) => layer.id), ...withheld.keys()],
      });
      try {
        await this.#applyPolicyStep(policy, step, dataFirst || withheld.size > lasting, signal);
        this.#blocked.clear();
        for (const [id, entry] of withheld) this.#blocked.set(id, entry);
        return;
      } catch (error) {
        const found = error instanceof EngineRefusal ? colliding(this.#layers, error, withheld) : [];
        step.undo();
        for (const entry of found) withheld.set(entry.layer.id, entry);
        if (found.length > 0) continue;
        // One module at a time, an engine refuses a rule where a document of the commit before still lies.
        const mayBeOld =
          error instanceof EngineRefusal && error.problems.some(({ conflictPath }) => conflictPath !== undefined);
        if (mayBeOld && !dataFirst && this.#engine.policyMode === 'modules') {
          dataFirst = true;
          continue;
        }
        // The documents of this commit do not fit its own rules: the last good policy goes back in.
        if (this.#policy !== before.policy) await this.#putBack(before, signal);
        throw error;
      }
    }
  }

  /** True when the engine holds a value without members at or above one of the packages. */
  #isInTheWay(policy: PolicySet): boolean {
    try {
      assertRoomFor(this.#layers, packageRoots(policy));
      return false;
    } catch (error) {
      if (!(error instanceof EngineRefusal)) throw error;
      return true;
    }
  }

  /**
   * Puts the policy before back in. The documents of roots that go with the refused policy stay in the bundle: the engine
   * erases what lies below a root that it loses.
   */
  async #putBack(
    before: { policy: PolicySet | undefined; roots: readonly DocPath[] },
    signal: AbortSignal,
  ): Promise<void> {
    const held = this.#roots.filter((root) => isObject(this.#layers.compose(root)));
    const policy = before.policy ?? NO_POLICY;
    this.#roots = this.#engine.roots(policy, [...before.roots, ...held]);
    this.#policy = before.policy;
    this.#regionsDoubtful = true;
    await this.#activate(policy, this.#roots, signal);
    this.#policy = before.policy;
  }

  /** Calls back with the paths of documents that were written; must return at once. */
  watch(onWritten: (paths: readonly DocPath[]) => void): void {
    this.#watchers.push(onWritten);
  }

  /** See `PolicyEngine.tidy`. Does nothing while there is no policy: then modules are not ours to judge. */
  async tidy(signal: AbortSignal): Promise<readonly string[]> {
    return this.#policy === undefined ? [] : this.#engine.tidy(this.#policy, signal);
  }

  /**
   * Takes the policy that the engine holds for that of another commit with the very same content: nothing is written. Call it as
   * a step, as all else.
   */
  rename(policy: PolicySet): void {
    if (this.#policy !== undefined) this.#policy = policy;
  }

  /** Whether others may write modules, and whether bringing a policy in looks for theirs. */
  get mayHaveStrays(): { readonly always: boolean; readonly afterCommit: boolean } {
    const { isGuarded, policyMode } = this.#engine;
    return { always: !isGuarded, afterCommit: !isGuarded && policyMode === 'bundle' };
  }

  /** Writes everything at and below a path again, whatever the engine has there. The engine has our marker. */
  async rewrite(path: DocPath, signal: AbortSignal): Promise<void> {
    this.#doubtful = outermost([...this.#doubtful, path]);
    await this.settleDoubts(signal);
  }

  /** Writes again whatever is in doubt after a call of unknown outcome. The engine has our marker. */
  async settleDoubts(signal: AbortSignal): Promise<void> {
    if (this.#regionsDoubtful && this.#policy !== undefined) await this.#activate(this.#policy, this.#roots, signal);
    await this.#write([], signal);
  }

  /**
   * A policy is judged by itself: dynamic documents that stand over its static data must not decide whether it is
   * accepted, or engines would differ by what came first. The engine's own activation does it where there are none.
   */
  async #judge(policy: PolicySet, statics: readonly Layer[], signal: AbortSignal): Promise<void> {
    const alone = new LayerSet();
    for (const layer of statics) alone.set(layer);
    const places = packageRoots(policy);
    assertNotReserved(statics, this.#engine.reserved);
    assertPackagesNotReserved(places, this.#engine.reserved, this.#engine.policyMode === 'bundle');
    assertRoomFor(alone, places);
    assertRoomFor(alone, this.#reservedParents(), OWN_DOCUMENTS);
    const regions = regionsOf(alone, places);
    const isMasked = regions.some(({ path }) =>
      this.#layers.overlapping(path).some((layer) => layer.rank.era !== STATIC_ERA),
    );
    if (isMasked) await this.#engine.check(policy, regions, signal);
  }

  async #applyPolicyStep(policy: PolicySet, step: Step, dataFirst: boolean, signal: AbortSignal): Promise<void> {
    const held = this.#roots.filter((root) => isObject(this.#layers.compose(root)));
    const roots = this.#engine.roots(policy, held);
    const ops = step.ops(this.#closed(roots), new Map());
    assertRoomFor(this.#layers, roots);
    assertRoomFor(this.#layers, this.#reservedParents(), OWN_DOCUMENTS);
    // What is in the way of the policy has to go first; the roots that are still active take no such write.
    const early = dataFirst ? step.ops(this.#closed(outermost([...this.#roots, ...roots])), new Map()) : [];
    await this.#write(early, signal);
    try {
      await this.#activate(policy, roots, signal);
    } catch (error) {
      if (dataFirst) await this.#write(step.reverseOps(this.#closed(this.#roots)), signal);
      throw error;
    }
    const done = new Set(early.map(({ path }) => JSON.stringify(path)));
    await this.#write(
      ops.filter(({ path }) => !done.has(JSON.stringify(path))),
      signal,
    );
  }

  /**
   * Writes everything again: for an engine that has just started or lost our content. `policy` and documents that the
   * engine held are put back without asking any source.
   */
  async restore(signal: AbortSignal): Promise<void> {
    this.#engine.startAfresh();
    await this.#engine.marker.begin(signal);
    await this.#fill(signal);
    await this.#engine.marker.complete(signal);
  }

  async #fill(signal: AbortSignal): Promise<void> {
    const refused = new Map<string, string>();
    const ops: DataOp[] = [];
    for (const path of outermost([...this.#layers.all()].map((layer) => layer.path))) {
      ops.push(...diffNodes(undefined, this.#layers.compose(path, refused), path, this.#closed(this.#roots)));
    }
    this.#doubtful = [];
    await this.#clear([...this.#layers.all()], ops, signal);
    for (const chunk of inChunks(ops)) await this.#write(chunk, signal);
    if (this.#policy !== undefined) await this.#activate(this.#policy, this.#roots, signal);
  }

  /**
   * An engine that outlives the client may have what another life of it wrote: an explicit deletion removes that, too, also
   * where nothing is known to be there (design D11). One by one, since a transaction ends at what is not there.
   */
  async #clear(layers: readonly Layer[], ops: readonly DataOp[], signal: AbortSignal): Promise<void> {
    if (this.#engine.seals === undefined) return;
    const closed = this.#closed(this.#roots);
    for (const { path, content } of layers) {
      if (content.kind !== 'delete' || this.#layers.compose(path) !== undefined) continue;
      const isWritten = ops.some((op) => isAtOrBelow(path, op.path));
      if (isWritten || closed.some((other) => pathsOverlap(other, path))) continue;
      await this.#write([{ op: 'remove', path }], signal);
    }
  }

  async #activate(policy: PolicySet, roots: readonly DocPath[], signal: AbortSignal): Promise<void> {
    try {
      await this.#engine.activate(policy, roots, regionsOf(this.#layers, roots), signal);
    } catch (error) {
      if (!(error instanceof EngineRefusal)) {
        // It may be in, or come in late: what lies below its roots stays in the bundle until that is settled.
        const held = roots.filter((root) => isObject(this.#layers.compose(root)));
        this.#roots = outermost([...this.#roots, ...held]);
        this.#regionsDoubtful = true;
      }
      throw error;
    }
    this.#policy = policy;
    this.#roots = roots;
    this.#regionsDoubtful = false;
  }

  async #write(wanted: readonly DataOp[], signal: AbortSignal): Promise<void> {
    const again = this.#doubtful.filter((path) => !wanted.some((op) => isAtOrBelow(path, op.path)));
    const fresh = wanted.filter((op) => !again.some((path) => isAtOrBelow(op.path, path)));
    const ops = [...fresh, ...again.flatMap((path) => this.#rewriteOps(path))];
    if (ops.length === 0) return;
    try {
      await this.#engine.write(ops, signal);
    } catch (error) {
      const changedNothing = error instanceof EngineRefusal && !error.partial;
      if (!changedNothing) this.#doubtful = outermost([...this.#doubtful, ...ops.map((op) => op.path)]);
      throw error;
    }
    this.#doubtful = [];
    for (const onWritten of this.#watchers) onWritten(ops.map(({ path }) => path));
  }

  #rewriteOps(path: DocPath): DataOp[] {
    const node = this.#layers.compose(path);
    const closed = this.#closed(this.#roots);
    if (node === undefined) return closed.some((other) => pathsOverlap(other, path)) ? [] : [{ op: 'remove', path }];
    return diffNodes(undefined, node, path, closed);
  }

  /** Where nothing is written as a document: the roots of the bundle, and what the client keeps for itself. */
  #closed(roots: readonly DocPath[]): readonly DocPath[] {
    return [...roots, ...this.#engine.reserved];
  }

  #reservedParents(): DocPath[] {
    return this.#engine.reserved.map((path) => path.slice(0, -1));
  }

  #begin(change: LayerChange): Step {
    return new Step(this.#layers, change, () => this.#roots);
  }
}

/** The documents at and below the roots. */
function regionsOf(layers: LayerSet, roots: readonly DocPath[]): Region[] {
  return roots.flatMap((path) => {
    const node = layers.compose(path);
    return node === undefined ? [] : [{ path, text: nodeText(node) }];
  });
}

/** The members of documents of the root path: the root itself is never removed. */
function topLevel(layers: readonly Layer[]): DocPath[] {
  const names = layers.flatMap(({ path, content }) => {
    if (path.length > 0) return path.slice(0, 1);
    return content.kind === 'put' ? [...members(content.body.text().trim()).keys()] : [];
  });
  return [...new Set(names)].map((name) => [name]);
}
