import { type BranchCommit, type ReadGit, readCommitsByHash } from './commit-log.js';

/** What the repository says of a commit. */
export interface CommitFacts {
  /** First line of its message; empty for a commit that was made of an archive. */
  readonly title: string;
  /** Name of its author; null for a commit that was made of an archive. */
  readonly author: string | null;
  /**
   * When it was committed, in milliseconds since 1970; null for a commit that was made of an
   * archive.
   */
  readonly timeMs: number | null;
  /** Files that differ from `base`, or from its first parent. */
  readonly files: number;
}

/** A commit, and the one to compare it with. */
export interface AskedCommit {
  readonly hash: string;
  /** Undefined: its first parent. */
  readonly base?: string | undefined;
}

const FULL_HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** Reads facts of commits by hash; those that the repository does not have are missing. */
export async function readCommitFacts(read: ReadGit, asked: readonly AskedCommit[]): Promise<Map<string, CommitFacts>> {
  const hashes = asked.map(({ hash }) => hash).filter((hash) => FULL_HASH.test(hash));
  const commits = await readCommitsByHash(read, hashes);
  if (commits.length === 0) return new Map();
  const known = new Set(commits.map(({ hash }) => hash));
  const files = await changedFiles(
    read,
    asked.filter(({ hash }) => known.has(hash)),
  );
  return new Map(commits.map((commit) => [commit.hash, { ...about(commit), files: files.get(commit.hash) ?? 0 }]));
}

/** Commits of archives have a fixed author and time (archive.ts). */
function about({ title, author, atMs }: BranchCommit): Omit<CommitFacts, 'files'> {
  return atMs > 0 ? { title, author, timeMs: atMs } : { title: '', author: null, timeMs: null };
}

/** Counts the files that each commit changed. */
async function changedFiles(read: ReadGit, asked: readonly AskedCommit[]): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  // A base that the repository does not have would end git.
  const bases = await existing(
    read,
    asked.flatMap(({ base }) => base ?? []),
  );
  const lines = asked.map(({ hash, base }) =>
    base !== undefined && bases.has(base) ? `${hash} ${base}\n` : `${hash}\n`,
  );
  const flags = ['--stdin', '-r', '-z', '--root', '--name-only', '--no-renames', '-m', '--first-parent'];
  const output = await read(['diff-tree', ...flags], { input: lines.join('') });
  const wanted = new Set(asked.map(({ hash }) => hash));
  let current: string | undefined;
  for (const item of output.toString('utf8').split('\0')) {
    if (wanted.has(item)) current = item;
    else if (item !== '' && current !== undefined) counts.set(current, (counts.get(current) ?? 0) + 1);
  }
  return counts;
}

async function existing(read: ReadGit, hashes: readonly string[]): Promise<ReadonlySet<string>> {
  if (hashes.length === 0) return new Set();
  const input = hashes.map((hash) => `${hash}\n`).join('');
  const output = await read(['cat-file', '--batch-check=%(objectname) %(objecttype)'], { input });
  return new Set(
    output
      .toString('utf8')
      .split('\n')
      .flatMap((line) => (line.endsWith(' commit') ? [line.slice(0, -' commit'.length)] : [])),
  );
}
