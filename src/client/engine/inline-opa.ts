import type { DocPath } from '../../wire/doc-path.js';
import { bundleArchive } from './bundle-archive.js';
import type { BundleService } from './bundle-service.js';
import type { PolicyCheck } from './check-policy.js';
import type { ArrivingBody, DataOp, PolicyEngine, PolicySet, Region } from './engine.js';
import { MARKER_PATH, Marker } from './marker.js';
import type { OpaRest } from './opa-rest.js';
import { bundleRoots } from './roots.js';

/** How an engine of ours reads modules, and how long it may take to activate them. */
export interface InlineOpaOptions {
  readonly regoVersion: 0 | 1;
  readonly activationTimeoutMs: number;
  /** What the client keeps for itself beside the marker. */
  readonly reserved?: readonly DocPath[];
}

/**
 * Our own OPA child: policy, and the documents that lie at or below its packages, go in as one bundle that OPA activates
 * as a whole; all other documents over REST. OPA refuses to let the two meet (design 9.4).
 */
export class InlineOpa implements PolicyEngine {
  readonly policyMode = 'bundle';
  readonly reserved: readonly DocPath[];
  readonly marker: Marker;
  readonly #options: InlineOpaOptions;
  readonly #bundles: BundleService;
  readonly #rest: OpaRest;
  readonly #check: PolicyCheck;
  #attempts = 0;

  constructor(options: InlineOpaOptions, deps: { bundles: BundleService; rest: OpaRest; check: PolicyCheck }) {
    this.#options = options;
    this.reserved = [MARKER_PATH, ...(options.reserved ?? [])];
    this.#bundles = deps.bundles;
    this.#rest = deps.rest;
    this.marker = new Marker(deps.rest);
    this.#check = deps.check;
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
    // Each attempt has a revision of its own, so that the engine's answer can be told from that to the one before.
    const revision = `${policy.hash}-${++this.#attempts}`;
    const archive = await bundleArchive({ policy, roots, regions, regoVersion: this.#options.regoVersion }, revision);
    await this.#bundles.activate(revision, archive, this.#options.activationTimeoutMs, signal);
  }

  write(ops: readonly DataOp[], signal: AbortSignal): Promise<void> {
    return this.#rest.write(ops, signal);
  }

  expect(path: DocPath, arriving: ArrivingBody): void {
    this.#rest.expect(path, arriving);
  }

  writeReserved(path: DocPath, text: string, signal: AbortSignal): Promise<void> {
    return this.#rest.write([{ op: 'put', path, text: () => text }], signal);
  }

  read(path: DocPath, signal: AbortSignal): Promise<string> {
    return this.#rest.getText(path, signal);
  }

  startAfresh(): void {
    this.#rest.reset();
    this.#bundles.clear();
  }
}
