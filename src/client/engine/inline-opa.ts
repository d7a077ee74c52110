import type { Logger } from '../../lib/log.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { DataOp } from '../desired/layers.js';
import { bundleArchive, bundleRoots } from './bundle-archive.js';
import { EngineRefusal, type PolicyEngine, type PolicySet, type Region } from './engine.js';
import { BUNDLE_NAME, type OpaBundleServer } from './opa-bundle-server.js';
import { OpaEngine } from './opa-engine.js';
import { isEnginesOwn, isLoadedFrom, removeModules } from './opa-modules.js';
import type { PolicyCheck } from './opa-program.js';
import type { OpaRest } from './opa-rest.js';
import type { RegoVersions, V0Modules } from './rego-versions.js';

/** Where OPA lists our modules. */
const BUNDLE_FOLDER = `${BUNDLE_NAME}/`;

/** Options of {@link InlineOpa}. */
export interface InlineOpaOptions {
  readonly activationTimeoutMs: number;
  /** Reserved documents in addition to the marker. */
  readonly reserved?: readonly DocPath[];
  /** Whether nobody else can write modules. */
  readonly isGuarded: boolean;
  /** Whether to check every policy first: the check rejects policies that the engine itself would accept. */
  readonly checksFirst: boolean;
  /** Files that OPA loads by itself: `files` of SYNC_INLINE_ENGINE_CONFIG. */
  readonly files: readonly string[];
}

/**
 * Our own OPA child. Sends policy, and the documents at or below its packages, as one bundle that OPA activates as a whole; all
 * other documents over REST. OPA does not let the two overlap (design D12).
 */
export class InlineOpa extends OpaEngine implements PolicyEngine {
  readonly policyMode = 'bundle';
  readonly #options: InlineOpaOptions;
  readonly #bundles: OpaBundleServer;
  readonly #check: PolicyCheck;
  readonly isGuarded: boolean;
  readonly #log: Logger;
  readonly #versions: RegoVersions;
  #attempts = 0;
  /** The modules of the bundle that OPA has activated. */
  #active: PolicySet['modules'] = new Map();
  /** Modules that were checked. */
  readonly #checked = new WeakSet<PolicySet['modules']>();

  constructor(
    options: InlineOpaOptions,
    deps: { bundles: OpaBundleServer; rest: OpaRest; check: PolicyCheck; versions: RegoVersions; log: Logger },
  ) {
    super(deps.rest, options);
    this.#options = options;
    this.isGuarded = options.isGuarded;
    this.#log = deps.log;
    this.#bundles = deps.bundles;
    this.#check = deps.check;
    this.#versions = deps.versions;
  }

  roots(policy: PolicySet, held: readonly DocPath[]): readonly DocPath[] {
    return bundleRoots(policy, held);
  }

  check(policy: PolicySet, regions: readonly Region[], signal: AbortSignal): Promise<void> {
    return this.#check(policy, regions, signal);
  }

  async activate(
    policy: PolicySet,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal: AbortSignal,
  ): Promise<void> {
    if (this.#options.checksFirst && policy.modules.size > 0 && !this.#checked.has(policy.modules)) {
      await this.#check(policy, [], signal);
      this.#checked.add(policy.modules);
    }
    try {
      await this.#activate(policy, roots, regions, signal);
    } catch (error) {
      if (!(error instanceof EngineRefusal) || this.isGuarded) throw error;
      // It may collide with a foreign module, which is not a fault of the policy.
      if ((await this.tidy(policy, signal)).length === 0) throw error;
      await this.#activate(policy, roots, regions, signal);
    }
  }

  async #activate(
    policy: PolicySet,
    roots: readonly DocPath[],
    regions: readonly Region[],
    signal: AbortSignal,
  ): Promise<void> {
    const attempt = async (v0: V0Modules): Promise<void> => {
      // Each attempt has its own revision, so that its status report differs from that of the attempt before.
      const revision = `${policy.hash}-${++this.#attempts}`;
      const archive = await bundleArchive({ policy, roots, regions, v0 }, revision);
      await this.#bundles.activate(revision, archive, this.#options.activationTimeoutMs, signal);
    };
    await this.#versions.settle(policy, attempt, signal);
    this.#active = policy.modules;
  }

  async tidy({ modules }: PolicySet, signal: AbortSignal): Promise<readonly string[]> {
    // Ours are those of the bundle, or of the previous one if it was refused: OPA protects the bundle's roots.
    const isOurs = (id: string): boolean => {
      const path = id.startsWith(BUNDLE_FOLDER) ? id.slice(BUNDLE_FOLDER.length) : undefined;
      return path !== undefined && (modules.has(path) || this.#active.has(path));
    };
    const strays = (await this.rest.listPolicies(signal))
      .filter((listed) => !isOurs(listed.id) && !isEnginesOwn(listed) && !isLoadedFrom(this.#options.files, listed.id))
      .map(({ id }) => id);
    return removeModules(strays, { rest: this.rest, log: this.#log }, signal);
  }

  async write(ops: readonly DataOp[], signal: AbortSignal, shells: readonly DocPath[]): Promise<void> {
    await this.rest.write(ops, signal);
    await this.rest.removeShells(shells, signal);
  }

  startAfresh(): void {
    this.rest.reset();
    this.#bundles.clear();
    this.#active = new Map();
  }
}
