import { execFile } from 'node:child_process';
import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { tempDir } from './temp-dir.js';

const exec = promisify(execFile);

/** Names, dates and configuration of the machine must not show in a test. */
const GIT_ENV = {
  PATH: process.env.PATH ?? '',
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'test',
  GIT_AUTHOR_EMAIL: 'test@example.com',
  GIT_COMMITTER_NAME: 'test',
  GIT_COMMITTER_EMAIL: 'test@example.com',
  // No second git after each commit that looks whether there is something to clean up.
  GIT_CONFIG_COUNT: '2',
  GIT_CONFIG_KEY_0: 'gc.auto',
  GIT_CONFIG_VALUE_0: '0',
  GIT_CONFIG_KEY_1: 'maintenance.auto',
  GIT_CONFIG_VALUE_1: 'false',
};

/** One shell for three programs: what a start costs grows with the memory of the process that starts it, and ours has much. */
const COMMIT_ALL = 'git add --all && git commit --quiet --allow-empty --message=test && git rev-parse HEAD';

/** Content of a file in a commit; null removes it, `link` makes a symbolic link. */
export type FileContent = string | Uint8Array | null | { link: string };

/** A real git repository with a work tree. `await using` removes it. */
export interface GitRepo extends AsyncDisposable {
  readonly path: string;
  /** `file://` URL. */
  readonly url: string;
  /** Runs git in it; answers what it prints, without the last newline. */
  git(...args: string[]): Promise<string>;
  /** Changes files, commits everything on the current branch, answers the hash. */
  commit(files: Record<string, FileContent>): Promise<string>;
}

/** Makes an empty repository on the branch `master`. */
export async function gitRepo(): Promise<GitRepo> {
  const dir = await tempDir();
  const repo = await gitRepoAt(join(dir.path, 'repo.git'));
  return { ...repo, [Symbol.asyncDispose]: () => dir[Symbol.asyncDispose]() };
}

/** {@link gitRepo} in a folder that somebody else removes. */
export async function gitRepoAt(path: string): Promise<Omit<GitRepo, typeof Symbol.asyncDispose>> {
  await mkdir(path, { recursive: true });
  const git = async (...args: string[]): Promise<string> => runGit(['-C', path, ...args]);
  await git('init', '--quiet', '--initial-branch=master', '--template=');
  return {
    path,
    url: pathToFileURL(path).href,
    git,
    commit: async (files) => {
      for (const [name, content] of Object.entries(files)) await change(join(path, name), content);
      const { stdout } = await exec('sh', ['-c', COMMIT_ALL], { cwd: path, env: GIT_ENV });
      return stdout.trim();
    },
  };
}

/** Runs git outside any repository of ours; answers what it prints, without the last newline. */
export async function runGit(args: readonly string[]): Promise<string> {
  const { stdout } = await exec('git', args, { env: GIT_ENV, maxBuffer: 64 * 1024 * 1024 });
  return stdout.replace(/\n$/, '');
}

async function change(path: string, content: FileContent): Promise<void> {
  if (content === null) return rm(path, { recursive: true });
  await mkdir(dirname(path), { recursive: true });
  if (typeof content === 'string' || content instanceof Uint8Array) return writeFile(path, content);
  await rm(path, { force: true });
  await symlink(content.link, path);
}
