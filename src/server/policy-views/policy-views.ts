import { ByteCache } from '../../lib/byte-cache.js';
import { SyncError } from '../../lib/errors.js';
import type {
  FileDiff,
  PolicyCommit,
  PolicyDiffAnswer,
  PolicyFile,
  PolicyFilesAnswer,
  PolicySourceAnswer,
} from '../../wire/fleet-views.js';
import { packageName } from '../../wire/rego-package.js';
import { directoryOf, normalDirectory } from '../bundle/directories.js';
import { MANIFEST_NAME } from '../bundle/load-order.js';
import type { BundleFile, Snapshot, Snapshots } from '../bundle/snapshot.js';
import type { SharedPolicyHead } from '../shared-policy-head.js';
import type { BranchCommit } from '../source/commit-log.js';
import type { GitViews } from '../source/git-views.js';
import { viewOfSource } from '../source/source.js';
import type { Tracker } from '../source/tracker.js';
import { refusalView, type TraceMemory } from '../trace/change-times.js';
import { commitState } from './commit-states.js';
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

export interface PolicyViewsDeps {
  readonly git: GitViews;
  readonly snapshots: Pick<Snapshots, 'get'>;
  readonly tracker: Pick<Tracker, 'head' | 'status'>;
  readonly heads: Pick<SharedPolicyHead, 'look'>;
  readonly times: Pick<TraceMemory['commits'], 'get'> | undefined;
}

/** The policy source for people: its commits, files and differences. */
export interface PolicyViews {
  source(): Promise<PolicySourceAnswer>;
  /**
   * The files of a commit that bundles have, as JSON text. `at`: default the served one. Rejects with `policy_commit_unknown`, and with
   * `policy_not_ready` without a commit.
   */
  files(at: string | undefined): Promise<Buffer>;
  /** What differs in these files, as JSON text. `from`: default the commit before `to`. Rejects like {@link PolicyViews.files}. */
  diff(from: string | undefined, to: string | undefined): Promise<Buffer>;
}

const COMMITS_SHOWN = 50;
const MAX_FILES = 5000;
const WARNINGS_SHOWN = 200;
const DIFF = { files: 200, bytes: 2 * 1024 * 1024, fileLines: 5000, lines: 20_000, lineChars: 2000 } as const;
/** Modules whose package is read: larger ones are not, and no more than this in all. */
const PACKAGES = { fileBytes: 256 * 1024, atOnceBytes: 4 * 1024 * 1024, totalBytes: 32 * 1024 * 1024 } as const;
/** Answers of one commit, or of a pair of them, never change. */
const CACHED_BYTES = 4 * 1024 * 1024;
/** Shortest part of a commit that names it. */
const SHORTEST_HASH = 7;
const FULL_HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** Creates {@link PolicyViews}; reads nothing before somebody asks. */
export function createPolicyViews(options: PolicyViewsOptions, deps: PolicyViewsDeps): PolicyViews {
  const { git, snapshots, tracker, heads } = deps;
  const answers = new Answers();
  const patterns = patternsOf(options);
  let listed: { readonly key: string; readonly commits: Promise<readonly BranchCommit[]> } | undefined;

  const earlier = (): readonly string[] => heads.look().head?.earlier ?? [];

  /** The commits of the branch, read again only when it has moved. */
  async function commits(tip: string | undefined): Promise<readonly BranchCommit[]> {
    const [head, { refused }] = [tracker.head(), tracker.status()];
    // A force-push may have taken these from the branch. An archive has no history: those that were served before are in the log.
    const others = [refused, head, ...(options.type === 'GIT' ? [] : earlier())];
    const key = JSON.stringify([tip, ...others]);
    if (listed?.key === key) return await listed.commits;
    const read = readCommits(tip, others);
    listed = { key, commits: read };
    read.catch(() => {
      listed = undefined; // the next caller reads again
    });
    return await read;
  }

  async function readCommits(
    tip: string | undefined,
    others: readonly (string | undefined)[],
  ): Promise<readonly BranchCommit[]> {
    const all = tip === undefined ? [] : await git.history(tip, COMMITS_SHOWN);
    const missing = others.filter((hash) => hash !== undefined && all.every((commit) => commit.hash !== hash));
    for (const commit of await git.commits([...new Set(missing)].filter((hash) => hash !== undefined))) {
      const place = all.findIndex(({ atMs }) => atMs < commit.atMs);
      all.splice(place < 0 ? all.length : place, 0, commit);
    }
    return all;
  }

  function wasServed({ hash }: BranchCommit): boolean {
    const isKnown = hash === tracker.head() || earlier().includes(hash);
    return isKnown || deps.times?.get(hash)?.stages.served !== undefined;
  }

  function shown(commit: BranchCommit, place: { isNewest: boolean; isOlder: boolean }): PolicyCommit {
    const { hash, author, atMs, title } = commit;
    const memory = deps.times?.get(hash);
    const status = tracker.status();
    const isRefusedNow = status.refused === hash;
    const { code, error } = status;
    const now = isRefusedNow && error !== undefined ? { message: error, ...(code !== undefined && { code }) } : null;
    const before = memory?.error === undefined ? null : refusalView(memory.error);
    const state = commitState({
      isHead: hash === tracker.head(),
      isRefused: isRefusedNow || before !== null,
      wasServed: wasServed(commit),
      ...place,
    });
    const isOurs = options.type === 'API';
    return {
      hash,
      // The commits of archives are ours: they have neither author nor time.
      title: isOurs ? 'Bundle archive' : title,
      author: isOurs ? '' : author,
      at: isOurs ? (memory?.stages.found ?? memory?.stages.served ?? 0) : atMs,
      state,
      error: state === 'refused' ? (before ?? now) : null,
    };
  }

  /** The full hash of a commit of the branch, as the server has it. */
  async function commitOf(text: string | undefined): Promise<string> {
    const head = tracker.head();
    if (text === undefined) {
      if (head === undefined) throw notReady();
      return head;
    }
    const asked = text.toLowerCase();
    const tip = await git.tip();
    const known = [...new Set([...(await commits(tip)).map(({ hash }) => hash), ...earlier()])];
    const fitting = known.filter((hash) => hash.startsWith(asked));
    const [first, second] = fitting;
    if (asked.length < SHORTEST_HASH) throw unknown(text);
    if (second !== undefined) {
      throw new SyncError('request_invalid', `several commits begin with ${asked}: give more of its digits`);
    }
    if (first !== undefined && (await git.objects.hasCommit(first))) return first;
    if (!FULL_HASH.test(asked)) throw unknown(text);
    for (const end of [tip, head]) {
      if (end !== undefined && (await git.objects.isAncestor(asked, end))) return asked;
    }
    throw unknown(text);
  }

  /** The commit to compare with where none is named: the one before, or, of an archive, the one that was served before. */
  async function before(to: string): Promise<string | null> {
    const parent = await git.parent(to);
    if (parent !== undefined) return parent;
    if (options.type === 'GIT') return null;
    const all = [...new Set([heads.look().head?.hash, tracker.head(), ...earlier()])];
    for (const hash of all.slice(all.indexOf(to) + 1)) {
      if (hash !== undefined && hash !== to && (await git.objects.hasCommit(hash))) return hash;
    }
    return null;
  }

  async function readFiles(hash: string): Promise<PolicyFilesAnswer> {
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

  async function readDiff(from: string | null, to: string): Promise<PolicyDiffAnswer> {
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

  return {
    source: async () => {
      const status = tracker.status();
      const { head, lastAttemptMs, lastResult } = status;
      // Before the first fetch there is no repository to read.
      const isEmpty = head === undefined && status.refused === undefined;
      const tip = isEmpty ? undefined : await git.tip();
      const all = isEmpty ? [] : await commits(tip);
      const firstServed = all.findLastIndex(wasServed);
      return {
        type: options.type,
        source: options.source,
        branch: options.branch ?? null,
        status: viewOfSource(status),
        last_look: lastAttemptMs ?? null,
        last_look_result: lastResult ?? null,
        commits: all.map((commit, index) =>
          shown(commit, { isNewest: commit.hash === tip, isOlder: index > firstServed }),
        ),
      };
    },
    files: async (at) => {
      const hash = await commitOf(at);
      return await answers.get(hash, () => readFiles(hash));
    },
    diff: async (asked, until) => {
      const to = await commitOf(until);
      const from = asked === undefined ? await before(to) : await commitOf(asked);
      return await answers.get(`${from}..${to}`, () => readDiff(from, to));
    },
  };
}

/** The last answers as text, and those that are being made: whoever asks the same meanwhile gets the same. */
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

/** Patterns of git for the files that a bundle may have: what else the repository holds is nobody's business here. */
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

function notReady(): SyncError {
  const text = 'no policy commit is served yet';
  return new SyncError('policy_not_ready', text, { retryable: true, retryAfterSeconds: 1 });
}

function unknown(text: string): SyncError {
  const shown = JSON.stringify(text.slice(0, 100));
  return new SyncError(
    'policy_commit_unknown',
    `commit ${shown} is not in the history of the branch as this server has it`,
  );
}
