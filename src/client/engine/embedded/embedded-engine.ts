import type { EmbeddedOpa } from '../../../embedded/embedded-opa.js';
import type { DocumentOp, EmbeddedPolicy } from '../../../embedded/types.js';
import type { Region } from '../../../embedded/vocabulary.js';
import { SyncError } from '../../../lib/errors.js';
import { outermost } from '../../../lib/json/path-tree.js';
import type { DocPath } from '../../../wire/doc-path.js';
import type { DataOp } from '../../desired/layers.js';
import type { EngineMarker, PolicyEngine, PolicySet } from '../engine.js';
import { MARKER_PATH } from '../marker.js';
import { bundleRoots } from '../modules/bundle-roots.js';
import type { RegoVersions, V0Modules } from '../modules/rego-versions.js';

/** What {@link EmbeddedEngine} asks of an embedded OPA. */
type EmbeddedWrites = Pick<EmbeddedOpa, 'check' | 'activate' | 'write' | 'read'>;

/**
 * OPA inside the package. Loads policy, and the documents at or below its packages, as a whole,
 * like the bundle of an inline engine; all other documents by themselves. Nobody else can write, so
 * there is nothing to tidy, and no seal to set.
 */
export class EmbeddedEngine implements PolicyEngine {
  readonly policyMode = 'bundle';
  readonly isGuarded = true;
  readonly reserved: readonly DocPath[];
  readonly occupied: readonly DocPath[];
  readonly marker = new MemoryMarker();
  readonly #opa: EmbeddedWrites;
  readonly #versions: RegoVersions;

  /**
   * `reserved`: reserved documents in addition to the marker's, which stay so for other engines.
   */
  constructor(opa: EmbeddedWrites, { reserved, versions }: { reserved: readonly DocPath[]; versions: RegoVersions }) {
    this.#opa = opa;
    this.#versions = versions;
    this.reserved = [MARKER_PATH, ...reserved];
    this.occupied = reserved;
  }

  roots(policy: PolicySet, held: readonly DocPath[]): readonly DocPath[] {
    return bundleRoots(policy, held);
  }

  check(policy: PolicySet, regions: readonly Region[], signal: AbortSignal): Promise<void> {
    const attempt = (v0: V0Modules): Promise<void> => this.#opa.check(embeddedPolicy(policy, v0), regions);
    return this.#versions.settle(policy, attempt, signal, false);
  }

  activate(
    policy: PolicySet,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal: AbortSignal,
  ): Promise<void> {
    const attempt = (v0: V0Modules): Promise<void> =>
      this.#opa.activate(embeddedPolicy(policy, v0), roots, regions, signal);
    return this.#versions.settle(policy, attempt, signal);
  }

  async tidy(): Promise<readonly string[]> {
    return [];
  }

  async writeInRoots(
    { hash }: PolicySet,
    _roots: readonly DocPath[],
    ops: readonly DataOp[],
    signal: AbortSignal,
  ): Promise<boolean> {
    signal.throwIfAborted();
    await this.#opa.write(ops.map(changeOf), hash);
    return true;
  }

  async write(ops: readonly DataOp[], signal: AbortSignal, shells: readonly DocPath[]): Promise<void> {
    signal.throwIfAborted();
    // Nobody else writes here: a shell holds nothing.
    const gone = outermost(shells).map((path) => ({ path, text: undefined }));
    await this.#opa.write([...ops.map(changeOf), ...gone]);
  }

  read(path: DocPath, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    return this.#opa.read(path);
  }

  async writeReserved(path: DocPath, text: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await this.#opa.write([{ path, text }]);
  }

  startAfresh(): void {
    // What is written next replaces all that is there.
  }
}

function changeOf(op: DataOp): DocumentOp {
  return { path: op.path, text: op.op === 'put' ? op.text() : undefined };
}

function embeddedPolicy({ hash, modules }: PolicySet, v0: V0Modules): EmbeddedPolicy {
  const list = [...modules].map(([path, rego]) => ({
    path,
    rego,
    version: v0.has(path) ? (0 as const) : (1 as const),
  }));
  return { hash, modules: list };
}

/**
 * The marker of the engine inside the package: nobody else can write there, so a member stands for
 * the document.
 */
export class MemoryMarker implements EngineMarker {
  #hasBegun = false;
  #isThere = false;

  async begin(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#hasBegun = true;
    this.#isThere = false;
  }

  async isThere(signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    return this.#isThere;
  }

  async complete(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#hasBegun) {
      throw new SyncError('engine_unreachable', 'the embedded engine ended while it was filled', { retryable: true });
    }
    this.#isThere = true;
  }

  /** The engine has ended, and with it what it held. */
  clear(): void {
    this.#hasBegun = false;
    this.#isThere = false;
  }
}
