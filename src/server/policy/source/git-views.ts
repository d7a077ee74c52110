import { type AskedCommit, type CommitFacts, readCommitFacts } from './commit-facts.js';
import { type BranchCommit, type ReadGit, readCommits, readCommitsByHash } from './commit-log.js';
import type { GitCommand } from './git-command.js';
import { createGitObjects, type GitObjects, limited } from './git-objects.js';

/**
 * Reads of the local repository for people who look at it: bounded, one at a time, and few that
 * wait, so that they are in nobody's way.
 */

/** A file that differs between two commits. */
export interface ChangedFile {
  /** Bytes that are not UTF-8 show as U+FFFD. */
  readonly path: string;
  readonly change: 'added' | 'removed' | 'modified';
  /** A link became a file, or the other way round: the patch has it twice. */
  readonly isTypeChange: boolean;
  /** Lines; null: it is binary, or too large to compare. */
  readonly added: number | null;
  readonly removed: number | null;
}

/** All reject with `git_failed`, `git_timeout` or `git_busy`. */
export interface GitViews {
  readonly objects: GitObjects;
  /** The commit that was fetched last, which may be refused. */
  tip(): Promise<string | undefined>;
  /** At most `limit` commits, from this one on along the first parents, newest first. */
  history(tip: string, limit: number): Promise<BranchCommit[]>;
  /** These commits, in this order, without those that are not here. */
  commits(hashes: readonly string[]): Promise<BranchCommit[]>;
  /** Facts by hash; those that are not here are missing. */
  facts(asked: readonly AskedCommit[]): Promise<ReadonlyMap<string, CommitFacts>>;
  /** The first parent of a commit. */
  parent(commit: string): Promise<string | undefined>;
  /** Sizes of blobs in bytes. */
  sizes(ids: readonly string[]): Promise<Map<string, number>>;
  /** The files that differ, of those that the patterns name. `from`: null for nothing. */
  changes(from: string | null, to: string, patterns: readonly string[]): Promise<ChangedFile[]>;
  /** The beginning of the patch of these files, in the same order. */
  patch(from: string | null, to: string, patterns: readonly string[], limitBytes: number): Promise<Buffer>;
}

/** Larger files are compared as binary ones: a difference of very long texts takes minutes. */
export const VIEW_CONFIG = [['core.bigFileThreshold', '2m']] as const;

const TIMEOUT_MS = 15_000;
/** Reads that wait. */
const MAX_WAITING = 32;
const CHANGES_BYTES = 4 * 1024 * 1024;
/** The tree without files. Every repository knows it by the hash function that it uses. */
const EMPTY_TREES: Readonly<Record<number, string>> = {
  40: '4b825dc642cb6eb9a060e54bf8d69288fbee4904',
  64: '6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321',
};
/** No program, no colours, and no guesses about renames, whatever the configuration says. */
const PLAIN = ['-r', '--no-renames', '--no-color', '--no-ext-diff', '--no-textconv', '--no-commit-id'] as const;

/**
 * {@link GitViews} of one repository; `fetchedRef` is what was fetched last. Commits are given as
 * full hashes.
 */
export function createGitViews(git: GitCommand, fetchedRef: string): GitViews {
  const run: ReadGit = (args, more) => git.run(args, { timeoutMs: TIMEOUT_MS, cuts: true, ...more });
  const read = limited(1, run, MAX_WAITING);
  // The fleet and its changes do not wait for those who compare commits.
  const readFacts = limited(1, run, MAX_WAITING);
  const base = (from: string | null, to: string): string => from ?? EMPTY_TREES[to.length] ?? '';
  return {
    objects: createGitObjects(git, 1, MAX_WAITING),
    tip: async () => {
      const text = await read(['for-each-ref', '--format=%(objectname)', '--', fetchedRef]);
      return text.toString('utf8').trim() || undefined;
    },
    history: (tip, limit) => readCommits(read, ['--first-parent', `--max-count=${limit}`, tip]),
    commits: (hashes) => readCommitsByHash(read, hashes),
    facts: (asked) => readCommitFacts(readFacts, asked),
    parent: async (commit) => {
      const text = await read(['rev-list', '--parents', '--no-walk', commit, '--']);
      return text.toString('utf8').trim().split(' ')[1];
    },
    sizes: async (ids) => {
      const input = ids.map((id) => `${id}\n`).join('');
      const text = await read(['cat-file', '--batch-check=%(objectname) %(objectsize)'], { input });
      const pairs = text
        .toString('latin1')
        .split('\n')
        .map((line) => line.split(' '));
      return new Map(pairs.map(([id = '', size]) => [id, Number(size)]));
    },
    changes: async (from, to, patterns) => {
      const args = ['diff-tree', ...PLAIN, '-z', '--raw', '--numstat', '--no-abbrev'];
      const text = await read([...args, base(from, to), to, '--', ...patterns], { limitBytes: CHANGES_BYTES });
      return parseChanges(text);
    },
    patch: async (from, to, patterns, limitBytes) => {
      const args = ['diff-tree', ...PLAIN, '-p', '-U3', '--inter-hunk-context=0', '--src-prefix=a/', '--dst-prefix=b/'];
      return await read([...args, base(from, to), to, '--', ...patterns], { limitBytes });
    },
  };
}

const CHANGES: Readonly<Record<string, ChangedFile['change']>> = { A: 'added', D: 'removed' };

/**
 * `:<modes and ids> <status>\0<path>\0` for each file, then `<added>\t<removed>\t<path>\0` for
 * each.
 */
function parseChanges(output: Buffer): ChangedFile[] {
  // An output that was cut ends amid a record.
  const fields = output
    .toString('utf8', 0, output.lastIndexOf(0) + 1)
    .split('\0')
    .slice(0, -1);
  const counts = new Map<string, { added: number | null; removed: number | null }>();
  const found: Pick<ChangedFile, 'path' | 'change' | 'isTypeChange'>[] = [];
  for (let at = 0; at < fields.length; at++) {
    const field = fields[at] ?? '';
    if (field.startsWith(':')) {
      const status = field.slice(field.lastIndexOf(' ') + 1);
      const path = fields[++at];
      if (path === undefined) continue;
      found.push({ path, change: CHANGES[status] ?? 'modified', isTypeChange: status === 'T' });
      continue;
    }
    const [, added = '', removed = '', path = ''] = /^(\d+|-)\t(\d+|-)\t(.*)$/s.exec(field) ?? [];
    const before = counts.get(path);
    const sum = (text: string, one: number | null | undefined): number | null =>
      text === '-' || one === null ? null : Number(text) + (one ?? 0);
    counts.set(path, { added: sum(added, before?.added), removed: sum(removed, before?.removed) });
  }
  return found.map((file) => ({ ...file, ...(counts.get(file.path) ?? { added: null, removed: null }) }));
}
