import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { SyncError } from '../../../lib/errors.js';
import { lineNotUtf8 } from '../../../lib/json/text-lines.js';
import type { Logger } from '../../../lib/observe/log.js';
import { ByteCache } from '../../../lib/run/byte-cache.js';
import { AT_ONCE, type CallerTurn, SharedWork } from '../../../lib/run/shared-work.js';
import type { PolicyBundle } from '../../../wire/bundle.js';
import { CommitRefused } from '../source/commit-refused.js';
import { type GitObjects, isDamage } from '../source/git-objects.js';
import type { PolicySourceStatus } from '../source/source.js';
import type { Tracker } from '../source/tracker.js';
import { type BundleItem, bundleItem } from './bundle-item.js';
import { requestedDirectories } from './directories.js';
import { type BundlePlan, planComplete, planDelta } from './plan.js';
import type { BundleFile, Snapshot, Snapshots } from './snapshot.js';

/** Retry-After before the first head. */
const NOT_READY_RETRY_SECONDS = 2;

/** How many missing directories a line of the log names. */
const NAMED_MISSING = 20;

export interface BundleRequest {
  /** Directories in any spelling; none: the whole repository. */
  directories: readonly string[];
  /** Commit that the caller holds. If it is unknown or no commit id, the bundle is complete. */
  baseHash?: string | undefined;
  /**
   * Directories that do not exist count as empty, and the bundle names them. Default: they are a
   * mistake of the caller.
   */
  allowsMissing?: boolean;
  /** When it is built, if it is not known. Default: at once. */
  turn?: CallerTurn;
}

export interface PolicyBundlesDeps {
  objects: GitObjects;
  snapshots: Snapshots;
  tracker: Pick<Tracker, 'head' | 'reportDamage'> & { status(): Pick<PolicySourceStatus, 'refused' | 'error'> };
  log: Logger;
}

/** Bundles of the served commit, built once for each (head, base, directories). */
export class PolicyBundles {
  readonly #deps: PolicyBundlesDeps;
  readonly #ready: ByteCache<EncodedBundle>;
  readonly #building = new SharedWork<EncodedBundle>();

  /** `cacheBytes`: SYNC_BUNDLE_CACHE_BYTES. */
  constructor(options: { cacheBytes: number }, deps: PolicyBundlesDeps) {
    this.#deps = deps;
    this.#ready = new ByteCache(options.cacheBytes, ({ size }) => size);
  }

  /**
   * Rejects with `policy_not_ready`, `git_failed`, and unless missing directories are allowed with
   * `policy_path_unknown`: neither the head nor the base has the directory.
   */
  async get(request: BundleRequest): Promise<EncodedBundle> {
    const hash = this.#deps.tracker.head();
    if (hash === undefined) {
      const { refused, error } = this.#deps.tracker.status();
      const why =
        refused === undefined ? 'the policy source has not been fetched yet' : `no commit is served: ${error}`;
      throw new SyncError('policy_not_ready', why, {
        // OPAL's words (opal-protocol P2.2)
        detail: refused === undefined ? 'policy repo is not ready' : `policy repo is not ready: ${error}`,
        outside: 'policy repo is not ready',
        retryAfterSeconds: NOT_READY_RETRY_SECONDS,
        retryable: true,
      });
    }
    const directories = requestedDirectories(request.directories);
    try {
      const head = await this.#deps.snapshots.get(hash);
      const base = await this.#base(request.baseHash);
      if (request.allowsMissing !== true) checkDirectories(directories, head, base);
      return await this.#bundle(head, base, directories, request);
    } catch (error) {
      if (isDamage(error)) this.#deps.tracker.reportDamage();
      throw error;
    }
  }

  /** Returns the commit that the caller holds, if it can be the base of a delta. */
  async #base(text: string | undefined): Promise<Snapshot | undefined> {
    const hash = text?.trim().toLowerCase();
    const { snapshots, objects } = this.#deps;
    // After a commit all clients send the same base: git is called once, not once per client.
    if (hash === undefined || !(snapshots.isKept(hash) || (await objects.hasCommit(hash)))) return undefined;
    try {
      return await snapshots.get(hash);
    } catch (error) {
      // A commit that cannot be served never was served: the caller holds something else.
      if (error instanceof SyncError && error.code === 'policy_commit_refused') return undefined;
      throw error;
    }
  }

  async #bundle(
    head: Snapshot,
    base: Snapshot | undefined,
    directories: readonly string[],
    { allowsMissing = false, turn = AT_ONCE }: BundleRequest,
  ): Promise<EncodedBundle> {
    const missing = allowsMissing ? directories.filter((directory) => !head.directories.has(directory)) : [];
    // With nothing to name, the bytes are the same for all callers.
    const key = [head.hash, base?.hash ?? '', missing.length > 0 ? 'missing' : '', ...directories].join('\0');
    const onGrown = (bundle: EncodedBundle): void => this.#ready.measure(key, bundle);
    const built = async (): Promise<EncodedBundle> => {
      const known = this.#ready.get(key);
      if (known !== undefined) return known;
      const bundle = await this.#build(head, base, { directories, missing }, onGrown);
      this.#ready.set(key, bundle);
      return bundle;
    };
    return this.#ready.get(key) ?? (await this.#building.get(key, turn, built));
  }

  async #build(
    head: Snapshot,
    base: Snapshot | undefined,
    { directories, missing }: { directories: readonly string[]; missing: readonly string[] },
    onGrown: (bundle: EncodedBundle) => void,
  ): Promise<EncodedBundle> {
    const startedMs = performance.now();
    const delta = base && planDelta(base, head, directories);
    const plan = delta ?? planComplete(head, directories);
    const contents = await this.#deps.objects.blobs(plan.files.map((file) => file.blob));
    const content: PolicyBundle = {
      ...buildBundle(plan, contents),
      ...(missing.length > 0 && { missing_directories: [...missing] }),
    };
    const bundle = new EncodedBundle(Buffer.from(JSON.stringify(content)), head.hash, onGrown);
    const fields = { hash: head.hash, base: delta?.oldHash, directories, bytes: bundle.json.length };
    this.#deps.log.debug({ ...fields, duration_ms: Math.round(performance.now() - startedMs) }, 'bundle built');
    if (missing.length > 0) {
      const asked = { hash: head.hash, missing: missing.slice(0, NAMED_MISSING) };
      this.#deps.log.warn(asked, 'clients subscribe to directories that the commit does not have: they count as empty');
    }
    return bundle;
  }
}

/**
 * Throws for a directory that neither commit has: a mistake of the caller. One that only the base
 * has was deleted, and the client must receive the deletion.
 */
function checkDirectories(directories: readonly string[], head: Snapshot, base: Snapshot | undefined): void {
  for (const directory of directories) {
    if (head.directories.has(directory) || base?.directories.has(directory)) continue;
    throw new SyncError('policy_path_unknown', `requested path ${directory} was not found in the policy repo!`);
  }
}

/**
 * Builds the bundle of a plan (specification "PolicyBundle"), members in the order of opal-protocol
 * P2.2, both module lists in load order. `contents`: bytes by object id. Throws
 * `policy_commit_refused` for a file that cannot be put into a bundle, which the review of a served
 * commit excludes.
 */
export function buildBundle(plan: BundlePlan, contents: ReadonlyMap<string, Uint8Array>): PolicyBundle {
  const bundle: PolicyBundle = {
    manifest: plan.files.map((file) => file.path),
    hash: plan.hash,
    old_hash: plan.oldHash,
    data_modules: [],
    policy_modules: [],
    deleted_files:
      plan.deleted === null
        ? null
        : { data_modules: [...plan.deleted.data], policy_modules: [...plan.deleted.policies] },
  };
  for (const file of plan.files) {
    const made = itemOf(plan.hash, file, contents.get(file.blob));
    if (made.kind === 'data') bundle.data_modules.push(made.item);
    else bundle.policy_modules.push(made.item);
  }
  return bundle;
}

function itemOf(hash: string, file: BundleFile, bytes: Uint8Array | undefined): BundleItem {
  try {
    return bundleItem(file, bytes);
  } catch (cause) {
    const line = lineNotUtf8(bytes ?? new Uint8Array());
    const place = { file: file.path, ...(line !== undefined && { line }) };
    throw new CommitRefused(hash, place, 'cannot be put into a bundle', cause);
  }
}

/** Smaller responses are not compressed. */
const GZIP_FROM_BYTES = 1_024;

const compress = promisify(gzip);

/** A serialized bundle. */
export class EncodedBundle {
  /** Quoted entity tag: equal for equal bytes, on every instance. */
  readonly etag: string;
  readonly json: Buffer;
  /** Commit that it leads to. */
  readonly hash: string;
  readonly #onGrown: (bundle: EncodedBundle) => void;
  #gzip: Promise<Buffer> | undefined;
  #size: number;

  /** `onGrown` is called when the size has changed. */
  constructor(json: Buffer, hash: string, onGrown: (bundle: EncodedBundle) => void) {
    this.etag = `"${createHash('sha256').update(json).digest('hex').slice(0, 32)}"`;
    this.json = json;
    this.hash = hash;
    this.#size = json.length;
    this.#onGrown = onGrown;
  }

  /** Bytes in memory. */
  get size(): number {
    return this.#size;
  }

  /** Returns the compressed form, created on the first call; undefined for a small bundle. */
  async gzip(): Promise<Buffer | undefined> {
    if (this.json.length < GZIP_FROM_BYTES) return undefined;
    this.#gzip ??= this.#compress();
    return await this.#gzip;
  }

  async #compress(): Promise<Buffer> {
    try {
      const bytes = await compress(this.json);
      this.#size = this.json.length + bytes.length;
      this.#onGrown(this);
      return bytes;
    } catch (error) {
      this.#gzip = undefined; // the next caller tries again
      throw error;
    }
  }
}
