import assert from 'node:assert/strict';
import type { DataOp } from '../../src/client/desired/layers.js';
import { MemoryMarker } from '../../src/client/engine/embedded/embedded-engine.js';
import type { PolicyEngine, PolicySet } from '../../src/client/engine/engine.js';
import { bundleRoots, groupedRoots } from '../../src/client/engine/modules/bundle-roots.js';
import { EngineRefusal, type Region } from '../../src/embedded/vocabulary.js';
import { SyncError } from '../../src/lib/errors.js';
import { type DocPath, docPathText, isAtOrBelow, parseDocPath, pathsOverlap } from '../../src/wire/doc-path.js';
import {
  asOwn,
  isObject,
  leafOf,
  membersOf,
  type Node,
  nodeAt,
  nodeText,
  withValue,
} from '../../src/wire/json-node.js';
import { regoPackage } from '../../src/wire/rego-package.js';

/** A rule, where it is defined, and the document path that it takes. */
interface Rule {
  readonly path: DocPath;
  readonly file: string;
  readonly row: number;
}

/** What becomes of the next call: it does not reach the engine, or its answer does not come back. */
type Trouble = 'unreachable' | 'unanswered';

/**
 * An engine in memory that keeps the rules of OPA as far as documents and policies meet: a document and a rule never have the same
 * place, a policy with an unknown function does not compile, a bundle owns what lies below its packages, and an object that was made on the
 * way to a document stays until it is removed. `tell` hears of each call.
 */
export class MemoryEngine implements PolicyEngine {
  readonly reserved = [];
  readonly occupied = [];
  readonly isGuarded = true;
  readonly policyMode: PolicyEngine['policyMode'];
  readonly marker: PolicyEngine['marker'];
  readonly #marker = new MemoryMarker();
  readonly #tell: (call: string) => void;
  /** Settles when the next call may go on. */
  readonly #turn: () => Promise<void>;
  #root: Node | undefined;
  #rules: readonly Rule[] = [];
  #packages: readonly DocPath[] = [];
  #roots: readonly DocPath[] = [];
  readonly #mostRoots: number;
  #trouble: Trouble | undefined;
  #starts = 0;

  constructor(
    policyMode: PolicyEngine['policyMode'],
    { tell, turn, mostRoots }: { tell: (call: string) => void; turn: () => Promise<void>; mostRoots?: number },
  ) {
    this.policyMode = policyMode;
    this.#mostRoots = mostRoots ?? Number.POSITIVE_INFINITY;
    this.#tell = tell;
    this.#turn = turn;
    const own = this.#marker;
    this.marker = {
      begin: async (signal) => {
        await this.#called('begin to fill', signal);
        await own.begin(signal);
      },
      isThere: (signal) => own.isThere(signal),
      complete: async (signal) => {
        await this.#called('filled', signal);
        await own.complete(signal);
      },
    };
  }

  /** All documents, as text. */
  get text(): string {
    return this.#root === undefined ? '{}' : nodeText(this.#root);
  }

  /** Another program, or an earlier life of the client, has written a document. */
  has(path: string, text: string): void {
    this.#root = withValue(this.#root, parseDocPath(path), leafOf(text));
  }

  /** The next call fails like this. */
  fails(how: Trouble): void {
    this.#trouble = how;
  }

  /** It has started again: nothing is left, and what was asked of it before has no answer. */
  wipe(): void {
    this.#starts++;
    this.#root = undefined;
    this.#rules = [];
    this.#packages = [];
    this.#roots = [];
    this.#marker.clear();
  }

  roots(policy: PolicySet, held: readonly DocPath[]): readonly DocPath[] {
    if (this.policyMode !== 'bundle') return [];
    return groupedRoots(bundleRoots(policy, held), { most: this.#mostRoots, apart: [] });
  }

  async check(policy: PolicySet, regions: readonly Region[]): Promise<void> {
    if (this.policyMode === 'bundle') assertRoom(rulesOf(policy), withRegions(undefined, [], regions));
  }

  async activate(
    policy: PolicySet,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal: AbortSignal,
  ): Promise<void> {
    const documents = regions.map(({ path, text }) => ` ${docPathText(path)} ${text}`).join(',');
    const answered = await this.#called(`policy ${policy.hash}${documents && `, with${documents}`}`, signal);
    const rules = rulesOf(policy);
    const root = withRegions(this.#root, [...this.#roots, ...roots], regions);
    assertRoom(rules, root);
    this.#root = root;
    this.#rules = rules;
    this.#packages = [...policy.modules.values()].flatMap((rego) => [regoPackage(rego) ?? []]);
    this.#roots = roots;
    answered();
  }

  /** As OPA does with our bundle: parents are there, and so is what is removed; a package is an object. */
  async writeInRoots(
    policy: PolicySet,
    roots: readonly DocPath[],
    ops: readonly DataOp[],
    signal: AbortSignal,
  ): Promise<boolean> {
    if (this.policyMode !== 'bundle') return false;
    const answered = await this.#called(`in the roots of ${policy.hash}: ${ops.map(opText).join('; ')}`, signal);
    assert.deepEqual(roots, this.#roots);
    let root = this.#root;
    for (const { path, ...op } of ops) {
      assert(roots.some((own) => isAtOrBelow(path, own)));
      const place = op.op === 'put' ? path.slice(0, -1) : path;
      const needed = this.#packages.some((own) => isAtOrBelow(own, place)) || nodeAt(root, place);
      if (needed === undefined || (op.op === 'put' && needed !== true && !isObject(needed))) return false;
      root = written(root, path, op.op === 'put' ? op.text() : undefined);
    }
    assertRoom(this.#rules, root);
    this.#root = root;
    answered();
    return true;
  }

  async write(ops: readonly DataOp[], signal: AbortSignal, shells: readonly DocPath[]): Promise<void> {
    for (const { path } of ops)
      assert(!this.#roots.some((own) => pathsOverlap(own, path)), 'a root is no place for it');
    const line = ops.map(opText);
    if (shells.length > 0) line.push(`remove if empty ${shells.map(docPathText).join(' ')}`);
    const answered = await this.#called(line.join('; '), signal);
    let root = this.#root;
    for (const op of ops) root = written(root, op.path, op.op === 'put' ? op.text() : undefined);
    assertRoom(this.#rules, root);
    for (const path of [...shells].sort((a, b) => b.length - a.length)) {
      const node = nodeAt(root, path);
      if (isObject(node) && membersOf(node).size === 0) root = written(root, path, undefined);
    }
    this.#root = root;
    answered();
  }

  async tidy(): Promise<readonly string[]> {
    return [];
  }

  /** A package is an object, also where nothing of it has a value. */
  async read(path: DocPath): Promise<string> {
    let root = this.#root;
    for (const place of this.#packages) if (!isObject(nodeAt(root, place))) root = written(root, place, '{}');
    const node = path.length === 0 ? (root ?? leafOf('{}')) : nodeAt(root, path);
    return node === undefined ? '{}' : `{"result":${nodeText(node)}}`;
  }

  async writeReserved(): Promise<void> {
    throw new Error('nothing is reserved');
  }

  startAfresh(): void {
    // What is written next replaces all that is there.
  }

  /** Tells of a call and waits for its turn; what is returned is called once it has taken effect. */
  async #called(call: string, signal: AbortSignal): Promise<() => void> {
    this.#tell(call);
    const starts = this.#starts;
    await this.#turn();
    signal.throwIfAborted();
    const trouble = this.#starts === starts ? this.#trouble : 'unreachable';
    this.#trouble = undefined;
    const fail = (): never => {
      throw new SyncError('engine_unreachable', 'the engine does not answer', { retryable: true });
    };
    if (trouble === 'unreachable') fail();
    return trouble === undefined ? () => undefined : fail;
  }
}

function opText(op: DataOp): string {
  return `${op.op} ${docPathText(op.path)}${op.op === 'put' ? ` ${op.text()}` : ''}`;
}

/** The rules of all modules: lines that begin with a name. */
function rulesOf({ modules }: PolicySet): Rule[] {
  const found: Rule[] = [];
  for (const [file, rego] of modules) {
    for (const [index, line] of rego.split('\n').entries()) {
      const row = index + 1;
      const unknown = /\bunknown\(/.test(line);
      const message = 'rego_type_error: undefined function unknown';
      if (unknown) throw new EngineRefusal(message, [{ message, file, row }]);
      const [, name] = /^(?!package\b|import\b|default\b)([a-z]\w*)/.exec(line) ?? [];
      if (name !== undefined) found.push({ path: [...(regoPackage(rego) ?? []), name], file, row });
    }
  }
  return found;
}

/** Throws the refusal of the first rule in whose place, or above it, a document lies. */
function assertRoom(rules: readonly Rule[], root: Node | undefined): void {
  for (const { path, file, row } of rules) {
    if (nodeAt(root, path) === undefined) continue;
    const message = `${docPathText(path)} is a rule`;
    throw new EngineRefusal(message, [{ message, file, row, conflictPath: path }]);
  }
}

/** The documents with those at and below the roots replaced. */
function withRegions(root: Node | undefined, roots: readonly DocPath[], regions: readonly Region[]): Node | undefined {
  let next = root;
  for (const path of roots) next = written(next, path, undefined);
  for (const { path, text } of regions) {
    if (roots.length > 0 && !roots.some((own) => isAtOrBelow(path, own))) throw new Error(`${path} is in no root`);
    next = written(next, path, text);
  }
  return next;
}

/** The documents with a text at a path, or without one there: parents are made, and nothing else takes them away. */
function written(root: Node | undefined, path: DocPath, text: string | undefined): Node | undefined {
  const next = withValue(root, path, text === undefined ? undefined : leafOf(text));
  return next === undefined ? undefined : asOwn(next);
}
