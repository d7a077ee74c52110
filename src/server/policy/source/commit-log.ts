/** A commit as its author wrote it. */
export interface BranchCommit {
  readonly hash: string;
  readonly author: string;
  /** Commit time, in milliseconds since 1970. */
  readonly atMs: number;
  /** First line of the message. */
  readonly title: string;
}

/**
 * Runs git on the repository; what goes beyond `limitBytes` is cut off. Rejects with `git_failed`
 * or `git_timeout`.
 */
export type ReadGit = (
  args: readonly string[],
  more?: { readonly input?: string; readonly limitBytes?: number },
) => Promise<Buffer>;

const LIMIT_BYTES = 1024 * 1024;
const SHOWN = { author: 100, title: 300 } as const;
const FORMAT = `--format=%H%x00%ct%x00%<(${SHOWN.author},trunc)%an%x00%<(${SHOWN.title},trunc)%s%x00`;

/** Reads the commits that arguments of `git rev-list` name. */
export async function readCommits(read: ReadGit, which: readonly string[]): Promise<BranchCommit[]> {
  return parse(await read(['rev-list', '--encoding=UTF-8', FORMAT, ...which, '--'], { limitBytes: LIMIT_BYTES }));
}

/** Reads these commits, in this order, without those that are not here. Takes full hashes. */
export async function readCommitsByHash(read: ReadGit, hashes: readonly string[]): Promise<BranchCommit[]> {
  // Not with --max-count, which makes it walk.
  return hashes.length === 0 ? [] : await readCommits(read, ['--no-walk=unsorted', '--ignore-missing', ...hashes]);
}

/** A line `commit <hash>`, and one with the format, for each commit. */
function parse(output: Buffer): BranchCommit[] {
  const lines = output.toString('utf8').split('\n');
  return lines.flatMap((line) => {
    const [hash, seconds, author, title, rest] = line.split('\0');
    if (hash === undefined || author === undefined || title === undefined || rest === undefined) return [];
    const atMs = Number(seconds) * 1000;
    return [{ hash, atMs, author: oneLine(author, SHOWN.author), title: oneLine(title, SHOWN.title) }];
  });
}

/** Git counts columns, of which some characters take none. */
function oneLine(text: string, limit: number): string {
  return text
    .replace(/\p{Cc}/gu, ' ')
    .trim()
    .slice(0, limit);
}
