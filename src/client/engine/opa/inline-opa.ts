import { EngineRefusal, type Region } from '../../../embedded/vocabulary.js';
import type { Logger } from '../../../lib/observe/log.js';
import type { DocPath } from '../../../wire/doc-path.js';
import type { DataOp } from '../../desired/layers.js';
import type { PolicyEngine, PolicySet } from '../engine.js';
import { bundleArchive, manifestRoots, withModuleNames } from '../modules/bundle-archive.js';
import { bundleRoots, groupedRoots } from '../modules/bundle-roots.js';
import type { RegoVersions, V0Modules } from '../modules/rego-versions.js';
import { BUNDLE_NAME, type OpaBundleServer } from './opa-bundle-server.js';
import { OpaEngine } from './opa-engine.js';
import { isEnginesOwn, isLoadedFrom, removeModules } from './opa-modules.js';
import type { PolicyCheck } from './opa-program.js';
import type { Change, OpaRest } from './opa-rest.js';

/** Where OPA lists our modules. */
const BUNDLE_FOLDER = `${BUNDLE_NAME}/`;

/** Where OPA keeps the manifest of our bundle. */
const MANIFEST: DocPath = ['system', 'bundles', BUNDLE_NAME, 'manifest'];

/** As many roots cost OPA next to nothing beside a compile of the modules in them. */
const MOST_ROOTS = 64;

/** Options of {@link InlineOpa}. */
export interface InlineOpaOptions {
  readonly activationTimeoutMs: number;
  /** Reserved documents in addition to the marker. */
  readonly reserved?: readonly DocPath[];
  /** Whether nobody else can write modules. */
  readonly isGuarded: boolean;
  /** Whether nobody but this client gives it policies, bundles or documents. */
  readonly isAlone: boolean;
  /**
   * Whether to check every policy first: the check rejects policies that the engine itself would
   * accept.
   */
  readonly checksFirst: boolean;
  /** Files that OPA loads by itself: `files` of SYNC_INLINE_ENGINE_CONFIG. */
  readonly files: readonly string[];
}

/**
 * Our own OPA child. Sends policy, and the documents in the roots of its packages, as one bundle
 * that OPA activates as a whole; all other documents over REST. OPA does not let the two overlap
 * (design D12).
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
  #activeHash = '';
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
    const roots = bundleRoots(policy, held);
    return this.#options.isAlone ? groupedRoots(roots, { most: MOST_ROOTS, apart: this.reserved }) : roots;
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
      const revision = this.#nextRevision(policy);
      const archive = await bundleArchive({ policy, roots, regions, v0 }, revision);
      await this.#bundles.activate(revision, archive, this.#options.activationTimeoutMs, signal);
    };
    await this.#versions.settle(policy, attempt, signal);
    this.#active = policy.modules;
    this.#activeHash = policy.hash;
  }

  /**
   * Each attempt has its own, so that its status report differs from that of the attempt before.
   */
  #nextRevision({ hash }: PolicySet): string {
    return `${hash}-${++this.#attempts}`;
  }

  /**
   * A bundle of documents alone would do, but OPA compiles all modules for it. OPA takes no other
   * write below the roots that it finds in its store, and looks there before each operation of a
   * transaction: so the transaction takes the roots away first, and ends by putting them back. An
   * OPA that looks elsewhere refuses it.
   */
  async writeInRoots(
    policy: PolicySet,
    roots: readonly DocPath[],
    ops: readonly DataOp[],
    signal: AbortSignal,
  ): Promise<boolean> {
    const replaced = (member: string, value: unknown): Change => {
      return { op: 'replace', path: [...MANIFEST, member], text: JSON.stringify(value) };
    };
    this.#bundles.outdate();
    const changes = [
      replaced('roots', manifestRoots([])),
      ...ops.map((op): Change => (op.op === 'put' ? { op: 'add', path: op.path, text: op.text() } : op)),
      replaced('roots', manifestRoots(roots)),
      ...(policy.hash === this.#activeHash ? [] : [replaced('revision', this.#nextRevision(policy))]),
    ];
    try {
      const isWritten = await this.rest.change(changes, signal);
      if (isWritten) this.#activeHash = policy.hash;
      return isWritten;
    } catch (error) {
      if (!(error instanceof EngineRefusal)) throw error;
      throw new EngineRefusal(error.message, withModuleNames(error.problems));
    }
  }

  async tidy({ modules }: PolicySet, signal: AbortSignal): Promise<readonly string[]> {
    // Ours are those of the bundle, or of the previous one if it was refused: OPA protects the
    // bundle's roots.
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
