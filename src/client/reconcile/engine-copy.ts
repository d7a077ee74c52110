import { EngineRefusal, type Region } from '../../embedded/vocabulary.js';
import { members } from '../../lib/json/json-text.js';
import { outermost, PathSet } from '../../lib/json/path-tree.js';
import { type DocPath, isAtOrBelow, pathsOverlap } from '../../wire/doc-path.js';
import { isObject, membersOf, nodeAt, nodeText } from '../../wire/json-node.js';
import { regoPackage } from '../../wire/rego-package.js';
import { type DataOp, diffNodes, type Layer, LayerSet, STATIC_ERA } from '../desired/layers.js';
import type { PolicyEngine, PolicySet } from '../engine/engine.js';
import { packageRoots } from '../engine/modules/bundle-roots.js';
import { regoOutline } from '../engine/modules/rego-outline.js';
import {
  assertNotReserved,
  assertPackagesNotReserved,
  assertRoomFor,
  type BlockedLayer,
  colliding,
  OWN_DOCUMENTS,
  refusalReason,
} from './collisions.js';
import { inChunks, type Step } from './step.js';

/** All that an engine holds, and what it refuses. */
export interface EngineContent {
  readonly policy: PolicySet | undefined;
  readonly layers: readonly Layer[];
  readonly blocked: readonly BlockedLayer[];
}

/** What the engine is for. */
export interface EngineUse {
  /**
   * The engine takes policy: it holds no document before its first policy is active, since a
   * document may lie where a rule comes.
   */
  readonly takesPolicy: boolean;
  /**
   * Hears of documents that were removed since a rule has their place, and that were none of ours.
   */
  readonly onCleared?: (paths: readonly DocPath[]) => void;
}

/** No policy at all. */
export const NO_POLICY: PolicySet = { hash: '', modules: new Map() };

/**
 * What the engine holds as far as the client knows, and what of that is in doubt since a call of
 * unknown outcome: that is written again with the next call. {@link Applier} changes it. Calls are
 * made one at a time.
 */
export class EngineCopy {
  /** The layers that the engine holds. */
  readonly layers = new LayerSet();
  readonly engine: PolicyEngine;
  readonly #withheld = new Map<string, BlockedLayer>();
  #roots: readonly DocPath[] = [];
  #areRegionsDoubtful = false;
  readonly #use: EngineUse;
  #policy: PolicySet | undefined;
  /** False while the documents of {@link load} are written, before its policy is active. */
  #isActive = false;
  /**
   * Where it is not known yet that no rule comes, while documents are written before their policy.
   */
  #undecided: readonly DocPath[] = [];
  /** The server has said that it has no policy source. */
  #isWithoutPolicy = false;
  /** The packages of the policy. */
  #packages: readonly DocPath[] = [];
  #packageSet = new PathSet([]);
  #doubtful: DocPath[] = [];
  /** Places where the engine may have objects that are there for nothing, and above. */
  #left: DocPath[] = [];
  readonly #watchers: ((paths: readonly DocPath[]) => void)[] = [];
  readonly #policyWatchers: (() => void)[] = [];
  readonly #withheldWatchers: (() => void)[] = [];

  constructor(engine: PolicyEngine, use: EngineUse) {
    this.engine = engine;
    this.#use = use;
  }

  /** The policy that the engine holds. */
  get policy(): PolicySet | undefined {
    return this.#isActive ? this.#policy : undefined;
  }

  /**
   * False until the first policy is active, or it is known that none will come: no document is
   * written before.
   */
  get takesDocuments(): boolean {
    return !this.#use.takesPolicy || this.#isWithoutPolicy || this.policy !== undefined;
  }

  /**
   * The server has no policy: documents are all that the engine gets. Returns whether they waited
   * for one until now.
   */
  expectNoPolicy(): boolean {
    const waited = !this.takesDocuments;
    this.#isWithoutPolicy = true;
    return waited;
  }

  /** Layers that are withheld because the engine refuses them. */
  get blocked(): ReadonlyMap<string, BlockedLayer> {
    return this.#withheld;
  }

  block(entry: BlockedLayer): void {
    this.#withheld.set(entry.layer.id, entry);
  }

  /** Forgets a blocked layer that is no longer wanted. */
  unblock(id: string): void {
    this.#withheld.delete(id);
  }

  /** Blocks these layers, and no others. */
  blockOnly(entries: Iterable<BlockedLayer>): void {
    this.#withheld.clear();
    for (const entry of entries) this.block(entry);
  }

  /** Subtrees that are written with the policy only. */
  get roots(): readonly DocPath[] {
    return this.#roots;
  }

  /** The packages of the policy. */
  get packages(): PathSet {
    return this.#packageSet;
  }

  /** Whether what lies in the roots is written again, with the policy. */
  get areRegionsDoubtful(): boolean {
    return this.#areRegionsDoubtful;
  }

  doubtRegions(): void {
    this.#areRegionsDoubtful = true;
  }

  /**
   * Fills an engine that holds nothing of ours but the marker with everything at once: documents,
   * then policy. Published documents that it refuses, or that rules keep out, are withheld. Throws
   * {@link EngineRefusal} when it refuses another part: then it, and this, hold nothing again.
   */
  async load(content: EngineContent, signal: AbortSignal): Promise<void> {
    this.adopt(content);
    this.#isActive = false;
    this.#areRegionsDoubtful = false;
    const written: DocPath[] = [];
    try {
      // What an engine has of an earlier life of this client goes on deciding until the policy
      // takes its place, and then with documents.
      const decides = await this.engine.hasOwnRules?.(signal);
      await this.#fill(signal, { isPolicyFirst: decides === true, onWrite: (path) => written.push(path) });
    } catch (error) {
      const mayDecide = this.#isActive || this.#areRegionsDoubtful;
      this.#forget(content);
      // What was written is removed with the next step, or now; the policy that needs it before.
      this.#areRegionsDoubtful = mayDecide;
      this.#doubtful = written.flatMap((path) => (path.length === 0 ? topLevel(content.layers) : [path]));
      if (error instanceof EngineRefusal) await this.settleDoubts(signal);
      throw error;
    }
  }

  /**
   * Assumes that the engine holds this already, except its modules: the next step compares those.
   * Throws {@link EngineRefusal} for what does not fit together, or with the client's own
   * documents: then this holds nothing.
   */
  adopt(content: EngineContent): void {
    if (!this.isEmpty) throw new Error('only an empty engine is loaded');
    const { policy, layers, blocked } = content;
    for (const layer of layers) this.layers.set(layer);
    this.blockOnly(blocked);
    this.#hold(policy);
    this.#roots = policy === undefined ? [] : this.engine.roots(policy, []);
    this.#areRegionsDoubtful = policy !== undefined;
    try {
      const { reserved, policyMode } = this.engine;
      assertNotReserved(layers, reserved);
      if (policy !== undefined) assertPackagesNotReserved(policy, reserved, policyMode === 'bundle');
      this.assertRoom(this.layers, this.roomOf(this.#roots, this.#packages));
    } catch (error) {
      this.#forget(content);
      throw error;
    }
  }

  #hold(policy: PolicySet | undefined): void {
    this.#policy = policy;
    this.#isActive = policy !== undefined;
    this.#packages = policy === undefined ? [] : packageRoots(policy);
    this.#packageSet = new PathSet(this.#packages);
  }

  #forget({ layers }: EngineContent): void {
    for (const layer of layers) this.layers.delete(layer.id);
    this.#withheld.clear();
    this.leave(placesLeft(this.#roots, this.#packages, this.#roots));
    this.#hold(undefined);
    this.#roots = [];
    this.#undecided = [];
    this.#areRegionsDoubtful = false;
  }

  /** True when the engine is known to hold exactly what this says. */
  get isCertain(): boolean {
    return this.#doubtful.length === 0 && this.#left.length === 0 && !this.#areRegionsDoubtful;
  }

  /** True while the engine holds nothing of ours. */
  get isEmpty(): boolean {
    return this.#policy === undefined && this.layers.size === 0 && this.#withheld.size === 0;
  }

  /** Calls back with the paths of documents that were written; must return at once. */
  watch(onWritten: (paths: readonly DocPath[]) => void): void {
    this.#watchers.push(onWritten);
  }

  /**
   * Calls back when the engine has activated a policy, or the same one with other documents in its
   * roots; must return at once.
   */
  watchPolicy(onActivated: () => void): void {
    this.#policyWatchers.push(onActivated);
  }

  /**
   * Calls back when documents that the engine held are withheld, since it refuses to have them
   * again; must return at once.
   */
  watchWithheld(onWithheld: () => void): void {
    this.#withheldWatchers.push(onWithheld);
  }

  /**
   * See `PolicyEngine.tidy`. Does nothing while there is no policy: then modules are not ours to
   * judge.
   */
  async tidy(signal: AbortSignal): Promise<readonly string[]> {
    return this.#policy === undefined ? [] : this.engine.tidy(this.#policy, signal);
  }

  /**
   * Takes the policy that the engine holds for that of another commit with the very same content:
   * nothing is written. Call it as a step, as all else.
   */
  rename(policy: PolicySet): void {
    if (this.#policy !== undefined) this.#policy = policy;
  }

  /** Whether others may write modules, and whether applying a policy leaves theirs. */
  get mayHaveStrays(): { readonly always: boolean; readonly afterCommit: boolean } {
    const { isGuarded, policyMode } = this.engine;
    return { always: !isGuarded, afterCommit: !isGuarded && policyMode === 'bundle' };
  }

  /**
   * Writes everything at and below a path again, whatever the engine has there. The engine has our
   * marker.
   */
  async rewrite(path: DocPath, signal: AbortSignal): Promise<void> {
    this.doubt([path]);
    this.#areRegionsDoubtful ||= this.#roots.some((root) => isAtOrBelow(path, root));
    await this.settleDoubts(signal);
  }

  /**
   * Writes again whatever is in doubt after a call of unknown outcome. The engine has our marker.
   */
  async settleDoubts(signal: AbortSignal): Promise<void> {
    if (this.#areRegionsDoubtful) {
      if (this.#policy === undefined) await this.reactivate(undefined, [], signal);
      else await this.activate(this.#policy, this.#roots, signal);
    }
    await this.write([], signal);
  }

  /**
   * Writes everything again: for an engine that has just started or lost our content. `policy` and
   * documents that the engine held are put back without asking any source.
   */
  async restore(signal: AbortSignal): Promise<void> {
    this.engine.startAfresh();
    await this.engine.marker.begin(signal);
    await this.#fill(signal);
    await this.engine.marker.complete(signal);
  }

  /**
   * Documents first: rules that lack what they deny by answer too openly. What rules keep out is
   * not among them, or waits: nothing lies where a rule may come before it is known that none does.
   * `onWrite` hears of each place before it is written.
   */
  async #fill(
    signal: AbortSignal,
    { isPolicyFirst = false, onWrite }: { isPolicyFirst?: boolean; onWrite?: (path: DocPath) => void } = {},
  ): Promise<void> {
    const policy = this.#policy;
    const places = outermost([...this.layers.all()].map((layer) => layer.path));
    this.#undecided = policy === undefined ? [] : isPolicyFirst ? [[]] : this.#whereRulesMayCome(policy);
    this.#areRegionsDoubtful &&= policy !== undefined;
    this.#doubtful = [];
    this.#left = [];
    const late = new Set(places.filter((place) => !this.#isDecided(place)));
    const ops = places.flatMap((path) => {
      const own = this.#opsOf(path);
      if (own.length > 0) onWrite?.(path);
      return own;
    });
    for (const layer of [...this.layers.all()].filter(({ content }) => content.kind === 'delete')) {
      try {
        await this.clear([layer], ops, signal);
      } catch (error) {
        if (!(error instanceof EngineRefusal)) throw error;
        this.#withhold([{ layer, reason: refusalReason(error) }]);
      }
    }
    for (const chunk of inChunks(ops)) {
      try {
        await this.write(chunk, signal);
      } catch (error) {
        if (!(error instanceof EngineRefusal)) throw error;
        const own = places.filter((place) => chunk.some((op) => isAtOrBelow(op.path, place)));
        // Of a policy of before that an engine has which outlives the client, a rule may be in the
        // way.
        for (const place of (await this.#writeApart(own, signal, policy === undefined)).keys()) late.add(place);
      }
    }
    if (policy !== undefined) await this.#activateAnew(policy, signal);
    this.#undecided = [];
    if (late.size === 0) return;
    if (onWrite !== undefined) for (const place of late) onWrite(place);
    for (const refusal of (await this.#writeApart([...late], signal)).values()) throw refusal;
  }

  /**
   * Where a rule of a policy may come, as far as its texts tell: rather too much than too little.
   * The roots of a bundle are not among these places, since documents come there with the policy.
   */
  #whereRulesMayCome({ modules }: PolicySet): DocPath[] {
    return [...modules.values()].flatMap((rego): DocPath[] => {
      const place = regoPackage(rego);
      if (place === undefined) return [[]]; // anywhere; no engine will take it
      if (this.engine.policyMode === 'bundle' || this.layers.overlapping(place).length === 0) return [];
      const { heads, words } = regoOutline(rego);
      return [...heads.keys(), ...words].map((name) => [...place, name]);
    });
  }

  /** Whether nothing of what is to be at a place lies where a rule may come. */
  #isDecided(place: DocPath): boolean {
    const near = this.#undecided.filter((other) => pathsOverlap(other, place));
    if (near.length === 0) return true;
    const node = this.layers.compose(place);
    return near.every((other) => {
      if (isAtOrBelow(place, other)) return false;
      for (let length = place.length; length < other.length; length++) {
        const above = nodeAt(node, other.slice(place.length, length));
        if (above === undefined) return true;
        // Written whole, or not at all.
        if (!isObject(above) || membersOf(above).size === 0) return false;
      }
      return nodeAt(node, other.slice(place.length)) === undefined;
    });
  }

  async #activateAnew(policy: PolicySet, signal: AbortSignal): Promise<void> {
    for (let isCleared = false; ; ) {
      try {
        await this.activate(policy, this.#roots, signal);
        return;
      } catch (error) {
        if (!(error instanceof EngineRefusal)) throw error;
        const found = colliding(this.layers, error, this.#withheld);
        if (found.length > 0) {
          this.#withhold(found);
          this.doubt(found.map(({ layer }) => layer.path));
          await this.write([], signal);
        } else if (isCleared || !(await this.clearStrangers(error, this.layers, signal))) throw error;
        else isCleared = true;
      }
    }
  }

  /**
   * An engine that outlives the client may have a document where a rule comes, that no layer of
   * ours puts there: the rule wins (design D10). Returns whether the refusal named such documents,
   * which are removed then. A bundle removes them by itself.
   */
  async clearStrangers(error: unknown, layers: LayerSet, signal: AbortSignal): Promise<boolean> {
    if (!(error instanceof EngineRefusal) || this.engine.policyMode === 'bundle') return false;
    const named = error.problems.flatMap(({ conflictPath }) => (conflictPath === undefined ? [] : [conflictPath]));
    const strange = outermost(
      named.filter((path) => [layers, this.layers].every((own) => own.compose(path) === undefined)),
    );
    if (strange.length === 0) return false;
    const removals = strange.map((path): DataOp => ({ op: 'remove', path }));
    await this.write(removals, signal);
    this.#use.onCleared?.(strange);
    return true;
  }

  /**
   * Writes places one by one, so that what the engine refuses at one keeps no other from being
   * written: published documents there are withheld where that is final. Returns the other
   * refusals.
   */
  async #writeApart(
    places: readonly DocPath[],
    signal: AbortSignal,
    isFinal = true,
  ): Promise<ReadonlyMap<DocPath, EngineRefusal>> {
    const refused = new Map<DocPath, EngineRefusal>();
    for (const path of places) {
      for (let isDone = false; !isDone; ) {
        this.#doubtful = []; // each place is written whole
        try {
          for (const chunk of inChunks(this.#rewriteOps(path))) await this.write(chunk, signal);
          isDone = true;
        } catch (error) {
          if (!(error instanceof EngineRefusal)) {
            this.doubt(places);
            throw error;
          }
          isDone = !isFinal || !this.#setAside(path, error);
          if (isDone) refused.set(path, error);
        }
      }
    }
    this.#doubtful = [];
    return refused;
  }

  /**
   * Withholds the published documents of a place that the engine refuses; false if there are none.
   */
  #setAside(place: DocPath, error: EngineRefusal): boolean {
    const named = colliding(this.layers, error, this.#withheld).filter(({ layer }) => pathsOverlap(layer.path, place));
    const all = this.layers.overlapping(place).filter(({ rank }) => rank.era !== STATIC_ERA);
    const found = named.length > 0 ? named : all.map((layer) => ({ layer, reason: refusalReason(error) }));
    this.#withhold(found);
    return found.length > 0;
  }

  #withhold(entries: readonly BlockedLayer[]): void {
    for (const entry of entries) {
      this.layers.delete(entry.layer.id);
      this.block(entry);
    }
    if (entries.length > 0) for (const onWithheld of this.#withheldWatchers) onWithheld();
  }

  /**
   * An engine that outlives the client may have what another life of it wrote: an explicit deletion
   * removes that, too, also where nothing is known to be there (design D11). One by one, since a
   * transaction ends at what is not there.
   */
  async clear(layers: readonly Layer[], ops: readonly DataOp[], signal: AbortSignal): Promise<void> {
    if (this.engine.seals === undefined) return;
    const closed = this.closed(this.#roots);
    for (const { path, content } of layers) {
      if (content.kind !== 'delete' || this.layers.compose(path) !== undefined) continue;
      const isWritten = ops.some((op) => isAtOrBelow(path, op.path));
      if (isWritten || closed.some((other) => pathsOverlap(other, path))) continue;
      await this.write([{ op: 'remove', path }], signal);
    }
  }

  /**
   * Brings a policy, its roots and what lies in them into the engine. `ops`: what changes in the
   * roots. Where nothing but documents does, nothing is compiled.
   */
  async bring(
    policy: PolicySet,
    roots: readonly DocPath[],
    ops: readonly DataOp[],
    signal: AbortSignal,
  ): Promise<void> {
    if (!(await this.#writeInRoots(policy, roots, ops, signal))) await this.activate(policy, roots, signal);
  }

  async #writeInRoots(
    policy: PolicySet,
    roots: readonly DocPath[],
    ops: readonly DataOp[],
    signal: AbortSignal,
  ): Promise<boolean> {
    if (this.#areRegionsDoubtful || !this.hasModulesOf(policy) || !isSamePlaces(this.#roots, roots)) return false;
    if (ops.length === 0 && policy.hash === this.policy?.hash) return true;
    try {
      const isWritten = await this.engine.writeInRoots?.(policy, this.#roots, ops, signal);
      if (isWritten !== true) return false;
    } catch (error) {
      this.#areRegionsDoubtful = !(error instanceof EngineRefusal);
      throw error;
    }
    this.#policy = policy;
    if (ops.length > 0) for (const onWritten of this.#watchers) onWritten(ops.map(({ path }) => path));
    return true;
  }

  /** Whether the engine holds exactly the modules of a policy. */
  hasModulesOf({ modules }: PolicySet): boolean {
    const held = this.policy?.modules;
    return (
      held === modules || (held?.size === modules.size && [...modules].every(([id, rego]) => held.get(id) === rego))
    );
  }

  async activate(policy: PolicySet, roots: readonly DocPath[], signal: AbortSignal): Promise<void> {
    try {
      await this.engine.activate(policy, roots, regionsOf(this.layers, roots), signal);
    } catch (error) {
      if (!(error instanceof EngineRefusal)) {
        // It may be in, or come in late: what lies below its roots stays in the bundle until that
        // is settled.
        const held = roots.filter((root) => this.layers.isObjectAt(root));
        this.#roots = outermost([...this.#roots, ...held]);
        this.#areRegionsDoubtful = true;
      }
      throw error;
    }
    const before = { roots: this.#roots, packages: this.#packages };
    this.#hold(policy);
    this.#roots = roots;
    this.#areRegionsDoubtful = false;
    const lost = without(before.roots, roots);
    this.leave(placesLeft(lost, without(before.packages, this.#packages), before.roots));
    // An object without members above a root is not written: the root is there in its place.
    this.doubt(lost.map((path) => this.layers.emptyAbove(path)).filter((path) => path !== undefined));
    for (const onActivated of this.#policyWatchers) onActivated();
  }

  async write(wanted: readonly DataOp[], signal: AbortSignal): Promise<void> {
    if (!this.takesDocuments && this.#policy === undefined && wanted.some(({ op }) => op === 'put')) {
      throw new Error('a document was to be written before the first policy');
    }
    const again = this.#doubtful.filter((path) => !wanted.some((op) => isAtOrBelow(path, op.path)));
    const fresh = wanted.filter((op) => !again.some((path) => isAtOrBelow(op.path, path)));
    const ops = [...fresh, ...again.flatMap((path) => this.#rewriteOps(path))];
    const shells = this.#shellsOf(ops);
    if (ops.length + shells.length > 0) {
      try {
        await this.engine.write(ops, signal, shells);
      } catch (error) {
        const isRefused = error instanceof EngineRefusal;
        if (!isRefused || error.partial) this.doubt(ops.map((op) => op.path));
        // Of several that are refused, the parents may have been made.
        if (ops.length > 1) this.leave(ops.map((op) => op.path.slice(0, -1)));
        const isApart = !again.some((path) => wanted.some((op) => pathsOverlap(op.path, path)));
        if (!isRefused || again.length === 0 || !isApart) throw error;
        // It may be what was in doubt that is refused: that keeps nothing else from being written.
        const refused = await this.#writeApart(again, signal);
        await this.write(wanted, signal);
        this.doubt([...refused.keys()]);
        for (const failure of wanted.length === 0 ? refused.values() : []) throw failure;
        return;
      }
    }
    this.#doubtful = [];
    this.#left = [];
    if (ops.length === 0) return;
    for (const onWritten of this.#watchers) onWritten(ops.map(({ path }) => path));
  }

  /**
   * The engine may have objects at and above these places that nothing says are there: the next
   * write looks at that.
   */
  leave(places: readonly DocPath[]): void {
    const all = [...this.#left, ...places.filter((path) => path.length > 0)];
    this.#left = [...new Map(all.map((path) => [JSON.stringify(path), path])).values()];
  }

  /**
   * Objects that are to go if they hold nothing: those above places with nothing, as far as nothing
   * says that they are there (see `LayerSet`). Those above a package stay: the package is below
   * them, whatever is stored there.
   */
  #shellsOf(ops: readonly DataOp[]): DocPath[] {
    const bared = ops.filter(({ op }) => op === 'remove').map(({ path }) => path.slice(0, -1));
    const found = new Map<string, DocPath>();
    for (const place of [...bared, ...this.#left]) {
      for (let length = this.layers.reach(place) + 1; length <= place.length; length++) {
        const shell = place.slice(0, length);
        found.set(JSON.stringify(shell), shell);
      }
    }
    if (found.size === 0) return [];
    const kept = [...this.#roots, ...this.#packages, ...this.engine.occupied];
    return [...found.values()].filter(
      (shell) =>
        !kept.some((other) => isAtOrBelow(other, shell)) && !this.#roots.some((root) => isAtOrBelow(shell, root)),
    );
  }

  #rewriteOps(path: DocPath): DataOp[] {
    const isClosed = (): boolean => this.closed(this.#roots).some((other) => pathsOverlap(other, path));
    if (this.layers.compose(path) === undefined) return isClosed() ? [] : [{ op: 'remove', path }];
    return this.#opsOf(path);
  }

  /** What writes everything that is to be at a path. */
  #opsOf(path: DocPath): DataOp[] {
    return diffNodes(undefined, this.layers.compose(path), path, this.closed(this.#roots));
  }

  /**
   * Where nothing is written as a document: the roots of the bundle, what the client keeps for
   * itself, and where a rule may come.
   */
  closed(roots: readonly DocPath[]): readonly DocPath[] {
    return [...roots, ...this.engine.occupied, ...this.#undecided];
  }

  /**
   * Throws a refusal where a value without members is at or above one of the places, or where the
   * client's own documents belong.
   */
  assertRoom(layers: LayerSet, places: Iterable<DocPath>): void {
    assertRoomFor(layers, places);
    assertRoomFor(layers, this.#ownParents(), { what: OWN_DOCUMENTS });
  }

  /** The same for what a step touches. */
  assertRoomNear(step: Step, roots: readonly DocPath[]): void {
    const packages = this.engine.policyMode === 'bundle' ? step.near(this.#packageSet) : [];
    assertRoomFor(this.layers, [...step.near(new PathSet(roots)), ...packages]);
    const own = this.#ownParents().filter((path) => step.touches(path));
    assertRoomFor(this.layers, own, { what: OWN_DOCUMENTS });
  }

  #ownParents(): DocPath[] {
    return this.engine.reserved.map((path) => path.slice(0, -1));
  }

  /** The roots of a bundle, and the packages in them: where only an object may be. */
  roomOf(roots: readonly DocPath[], packages: readonly DocPath[]): readonly DocPath[] {
    return this.engine.policyMode === 'bundle' ? [...roots, ...packages] : roots;
  }

  doubt(paths: readonly DocPath[]): void {
    this.#doubtful = outermost([...this.#doubtful, ...paths]);
  }

  /** Brings a policy back in, or none, whatever the engine has of it now. */
  async reactivate(policy: PolicySet | undefined, roots: readonly DocPath[], signal: AbortSignal): Promise<void> {
    this.leave(placesLeft(this.#roots, this.#packages, this.#roots));
    this.#roots = roots;
    this.#hold(policy);
    this.#areRegionsDoubtful = true;
    await this.activate(policy ?? NO_POLICY, roots, signal);
    this.#hold(policy);
  }
}

/** Whether two lists have the same places. */
function isSamePlaces(places: readonly DocPath[], others: readonly DocPath[]): boolean {
  return places === others || (places.length === others.length && without(places, others).length === 0);
}

/** The places of a list that another one does not have. */
export function without(places: readonly DocPath[], others: readonly DocPath[]): DocPath[] {
  const known = new Set(others.map((path) => JSON.stringify(path)));
  return places.filter((path) => !known.has(JSON.stringify(path)));
}

/**
 * Where something may be left of roots that the engine has erased, and of packages that were in
 * none of its `roots`.
 */
function placesLeft(erased: readonly DocPath[], packages: readonly DocPath[], roots: readonly DocPath[]): DocPath[] {
  const alone = packages.filter((path) => !roots.some((root) => isAtOrBelow(path, root)));
  return [...erased.map((path) => path.slice(0, -1)), ...alone];
}

/** The documents at and below the roots. */
export function regionsOf(layers: LayerSet, roots: readonly DocPath[]): Region[] {
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
