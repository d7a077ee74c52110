import { DocumentRefusal } from '../../embedded/documents.js';
import type { EmbeddedOpa } from '../../embedded/embedded-opa.js';
import { type EmbeddedPolicy, GoRefusal } from '../../embedded/types.js';
import { outermost } from '../../lib/path-tree.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { DataOp } from '../desired/layers.js';
import { bundleRoots } from './bundle-archive.js';
import { EngineRefusal, type PolicyEngine, type PolicySet, type Region } from './engine.js';
import { MARKER_PATH } from './marker.js';
import { MemoryMarker } from './memory-marker.js';
import { opaProblems } from './opa-rest.js';
import type { RegoVersions, V0Modules } from './rego-versions.js';

/** What {@link EmbeddedEngine} asks of an embedded OPA. */
export type EmbeddedWrites = Pick<EmbeddedOpa, 'check' | 'activate' | 'write' | 'read'>;

/**
 * OPA inside the package. Loads policy, and the documents at or below its packages, as a whole, like the bundle of an inline engine;
 * all other documents by themselves. Nobody else can write, so there is nothing to tidy, and no seal to set.
 */
export class EmbeddedEngine implements PolicyEngine {
  readonly policyMode = 'bundle';
  readonly isGuarded = true;
  readonly reserved: readonly DocPath[];
  readonly occupied: readonly DocPath[];
  readonly marker = new MemoryMarker();
  readonly #opa: EmbeddedWrites;
  readonly #versions: RegoVersions;

  /** `reserved`: reserved documents in addition to the marker's, which stay so for other engines. */
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
    const attempt = (v0: V0Modules): Promise<void> => refusing(this.#opa.check(embeddedPolicy(policy, v0), regions));
    return refusing(this.#versions.settle(policy, attempt, signal, false));
  }

  activate(
    policy: PolicySet,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal: AbortSignal,
  ): Promise<void> {
    const attempt = (v0: V0Modules): Promise<void> =>
      refusing(this.#opa.activate(embeddedPolicy(policy, v0), roots, regions, signal));
    return refusing(this.#versions.settle(policy, attempt, signal));
  }

  async tidy(): Promise<readonly string[]> {
    return [];
  }

  async write(ops: readonly DataOp[], signal: AbortSignal, shells: readonly DocPath[]): Promise<void> {
    signal.throwIfAborted();
    const changes = ops.map((op) => ({ path: op.path, text: op.op === 'put' ? op.text() : undefined }));
    // Nobody else writes here: a shell holds nothing.
    const gone = outermost(shells).map((path) => ({ path, text: undefined }));
    await refusing(this.#opa.write([...changes, ...gone]));
  }

  read(path: DocPath, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    return this.#opa.read(path);
  }

  async writeReserved(path: DocPath, text: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await refusing(this.#opa.write([{ path, text }]));
  }

  startAfresh(): void {
    // What is written next replaces all that is there.
  }
}

function embeddedPolicy({ hash, modules }: PolicySet, v0: V0Modules): EmbeddedPolicy {
  const list = [...modules].map(([path, rego]) => ({
    path,
    rego,
    version: v0.has(path) ? (0 as const) : (1 as const),
  }));
  return { hash, modules: list };
}

/** Converts what the embedded OPA refuses to what the client reports. */
async function refusing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof DocumentRefusal) throw new EngineRefusal(error.message, [{ message: error.message }]);
    if (!(error instanceof GoRefusal)) throw error;
    const problems = opaProblems(error.problems.map(({ message, ...location }) => ({ message, location })));
    throw new EngineRefusal(error.message, problems);
  }
}
