import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { runGit } from '../../test/support/git-repo.js';

/** A bare clone, and git called for what a server has to ask of it. */
export interface BareGit {
  readonly path: string;
  /** Reads every file of the head: the list, then all contents. Answers the bytes. */
  readTree(): Promise<number>;
  /** The text of all changes between two commits. */
  diff(from: string, to: string): Promise<number>;
}

/** Clones a repository, packed as a fetch packs it. */
export async function bareGit(dir: string, repoUrl: string): Promise<BareGit> {
  const path = join(dir, 'bare.git');
  await runGit(['clone', '--quiet', '--bare', repoUrl, path]);
  return {
    path,
    readTree: async () => {
      const list = await git(path, ['ls-tree', '-r', '-z', 'HEAD']);
      const ids = list
        .toString('utf8')
        .split('\0')
        .filter(Boolean)
        .map((line) => line.slice(12, 52));
      const contents = await git(path, ['cat-file', '--batch', '--buffer'], `${ids.join('\n')}\n`);
      return contents.length;
    },
    diff: async (from, to) => (await git(path, ['diff', from, to])).length,
  };
}

function git(path: string, args: readonly string[], input = ''): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      'git',
      ['--git-dir', path, ...args],
      { encoding: 'buffer', maxBuffer: 256 * 1024 * 1024 },
      (error, stdout) => (error === null ? resolve(stdout) : reject(error)),
    );
    // That git went away before it had read everything is told by how it ended.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
  });
}
