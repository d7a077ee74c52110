import { ByteCache } from '../../../lib/run/byte-cache.js';
import type {
  FileDiff,
  PolicyDiffAnswer,
  PolicyFile,
  PolicyFilesAnswer,
  PolicySourceAnswer,
} from '../../../wire/fleet-views.js';
import { packageName } from '../../../wire/rego-package.js';
import { directoryOf, normalDirectory } from '../bundle/directories.js';
import { MANIFEST_NAME } from '../bundle/load-order.js';
import type { BundleFile, Snapshot, Snapshots } from '../bundle/snapshot.js';
import type { GitViews } from '../source/git-views.js';
import { viewOfSource } from '../source/source.js';
import { BranchCommits, type BranchDeps } from './branch-commits.js';
import { type FilePatch, readPatch } from './patch-text.js';

export interface PolicyViewsOptions {
  readonly type: 'GIT' | 'API';
  /** Address without secrets. */
  readonly source: string;
  /** Undefined: a bundle server has none. */
  readonly branch: string | undefined;
  /** SYNC_POLICY_REPO_POLICY_EXTENSIONS. */
  readonly policyExtensions: readonly string[];
  /** SYNC_POLICY_REPO_MANIFEST_PATH. */
  readonly manifestPath: string;
}

export interface PolicyViewsDeps extends BranchDeps {
  readonly snapshots: Pick<Snapshots, 'get'>;
}

const MAX_FILES = 5000;
const WARNINGS_SHOWN = 200;
const DIFF = { files: 200, bytes: 2 * 1024 * 1024, fileLines: 5000, lines: 20_000, lineChars: 2000 } as const;
/** Modules whose package is read: larger ones are not, and no more than this in all. */
const PACKAGES = { fileBytes: 256 * 1024, atOnceBytes: 4 * 1024 * 1024, totalBytes: 32 * 1024 * 1024 } as const;
/** Answers of one commit, or of a pair of them, never change. */
const CACHED_BYTES = 4 * 1024 * 1024;
/** The policy source for people: its commits, files and differences. Reads on request only. */
export class PolicyViews {
  readonly #options: PolicyViewsOptions;
  readonly #deps: PolicyViewsDeps;
  readonly #branch: BranchCommits;
  readonly #answers = new Answers();

  constructor(options: PolicyViewsOptions, deps: PolicyViewsDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#branch = new BranchCommits(options, deps);
  }

  async source(): Promise<PolicySourceAnswer> {
    const { type, source, branch } = this.#options;
    const status = this.#deps.tracker.status();
    const { lastAttemptMs, lastResult } = status;
    return {
      ...{ type, source, branch: branch ?? null, status: viewOfSource(status) },
      last_look: lastAttemptMs ?? null,
      last_look_result: lastResult ?? null,
      commits: await this.#branch.list(),
    };
  }

  /**
   * The files of a commit that bundles have, as JSON text. `at`: default the served one. Rejects
   * with `policy_commit_unknown`, and with `policy_not_ready` without a commit.
   */
  async files(at: string | undefined): Promise<Buffer> {
    const hash = await this.#branch.hashOf(at);
    return await this.#answers.get(hash, () => this.#files(hash));
  }

  /**
   * What differs in these files, as JSON text. `from`: default the commit before `to`. Rejects like
   * {@link files}.
   */
  async diff(from: string | undefined, to: string | undefined): Promise<Buffer> {
    const until = await this.#branch.hashOf(to);
    const since = from === undefined ? await this.#branch.before(until) : await this.#branch.hashOf(from);
    return await this.#answers.get(`${since}..${until}`, () => this.#diff(since, until));
  }

  async #files(hash: string): Promise<PolicyFilesAnswer> {
    const { git, snapshots } = this.#deps;
    const snapshot = await snapshots.get(hash);
    const files = snapshot.files.slice(0, MAX_FILES);
    const sizes = await git.sizes([...new Set(files.map(({ blob }) => blob))]);
    const packages = await packagesOf(files, sizes, git);
    const replaced = new Map(
      snapshot.warnings.map(({ kind, file, text }) => [kind === 'data_replaced' ? file : '', text]),
    );
    return {
      hash,
      files: files.map((file, index): PolicyFile => {
        const { path, kind, blob } = file;
        return {
          ...{ path, kind, order: index + 1, listed: index < snapshot.listed },
          package: kind === 'data' ? dataPath(path) : (packages.get(blob) ?? null),
          bytes: sizes.get(blob) ?? 0,
          warning: replaced.get(path) ?? null,
        };
      }),
      total: snapshot.files.length,
      manifests: [...snapshot.manifests.keys()].slice(0, MAX_FILES),
      ignored: Math.max(0, snapshot.total - snapshot.files.length - snapshot.manifests.size),
      warnings: snapshot.warnings.slice(0, WARNINGS_SHOWN).map(({ file, text }) => ({ file, text })),
    };
  }

  async #diff(from: string | null, to: string): Promise<PolicyDiffAnswer> {
    const { git, snapshots } = this.#deps;
    const patterns = patternsOf(this.#options);
    const after = await snapshots.get(to);
    const base = from === null ? undefined : await snapshots.get(from);
    const shownPaths = new Set([...pathsOf(after), ...(base === undefined ? [] : pathsOf(base))]);
    const changes = await git.changes(from, to, patterns);
    const patch = await git.patch(from, to, patterns, DIFF.bytes);
    const sections = readPatch(patch.toString('utf8'), patch.length >= DIFF.bytes, DIFF);
    let at = 0;
    const files: FileDiff[] = [];
    let total = 0;
    for (const { path, change, isTypeChange, added, removed } of changes) {
      const own = sections.slice(at, at + (isTypeChange ? 2 : 1));
      at += isTypeChange ? 2 : 1;
      if (!shownPaths.has(path)) continue;
      total++;
      if (files.length >= DIFF.files) continue;
      const counts = { added: added ?? 0, removed: removed ?? 0 };
      files.push({ path, change, ...counts, ...joined(own), binary: added === null });
    }
    return { from, to, files, total };
  }
}

/**
 * The last answers as text, and those that are being made: whoever asks the same meanwhile gets the
 * same.
 */
class Answers {
  readonly #ready = new ByteCache<Buffer>(CACHED_BYTES, ({ length }) => length);
  readonly #making = new Map<string, Promise<Buffer>>();

  async get(key: string, make: () => Promise<object>): Promise<Buffer> {
    const known = this.#ready.get(key) ?? this.#making.get(key);
    if (known !== undefined) return await known;
    const making = make().then((answer) => Buffer.from(JSON.stringify(answer)));
    this.#making.set(key, making);
    try {
      const text = await making;
      this.#ready.set(key, text);
      return text;
    } finally {
      this.#making.delete(key);
    }
  }
}

/**
 * Patterns of git for the files that a bundle may have: what else the repository holds is nobody's
 * business here.
 */
function patternsOf({ policyExtensions, manifestPath }: PolicyViewsOptions): string[] {
  const endings = [...policyExtensions, 'data.json'].map((ending) => ending.replace(/[\\*?[\]]/g, '\\$&'));
  const manifest = normalDirectory(manifestPath);
  return [
    ...endings.map((ending) => `:(top,glob)**/*${ending}`),
    `:(top,glob)**/${MANIFEST_NAME}`,
    ...(manifest === '.' ? [] : [`:(top,literal)${manifest}`]),
  ];
}

/** The files that are in the bundles of a commit, or order them. */
function pathsOf({ files, manifests }: Snapshot): string[] {
  return [...files.map(({ path }) => path), ...manifests.keys()];
}

function joined(patches: readonly FilePatch[]): FilePatch {
  return {
    hunks: patches.flatMap(({ hunks }) => hunks),
    truncated: patches.length === 0 || patches.some(({ truncated }) => truncated),
  };
}

/** Packages of modules by their blobs, as far as they are read. */
async function packagesOf(
  files: readonly BundleFile[],
  sizes: ReadonlyMap<string, number>,
  { objects }: GitViews,
): Promise<ReadonlyMap<string, string>> {
  const packages = new Map<string, string>();
  const modules = new Set(files.filter(({ kind }) => kind === 'policy').map(({ blob }) => blob));
  let total = 0;
  let group: string[] = [];
  let bytes = 0;
  const read = async (): Promise<void> => {
    for (const [blob, content] of await objects.blobs(group)) {
      const name = packageName(content.toString('utf8'));
      if (name !== '') packages.set(blob, name);
    }
    [group, bytes] = [[], 0];
  };
  for (const blob of modules) {
    const size = sizes.get(blob) ?? Number.POSITIVE_INFINITY;
    if (size > PACKAGES.fileBytes) continue;
    total += size;
    if (total > PACKAGES.totalBytes) break;
    group.push(blob);
    bytes += size;
    if (bytes >= PACKAGES.atOnceBytes) await read();
  }
  await read();
  return packages;
}

/** Where a data file is loaded, as Rego names it: `data.a.b`. */
function dataPath(path: string): string {
  const folder = directoryOf(path);
  return folder === '.' ? 'data' : `data.${folder.replaceAll('/', '.')}`;
}
