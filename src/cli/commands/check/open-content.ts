import { rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { temporaryFolder } from '../../../client/temporary-folder.js';
import { SyncError } from '../../../lib/errors.js';
import { type Secret, silentLogger } from '../../../lib/observe/log.js';
import { createGitCommand, type GitCommand } from '../../../server/policy/source/git-command.js';
import { createGitObjects, type GitObjects } from '../../../server/policy/source/git-objects.js';
import { parseGitRemote } from '../../../server/policy/source/git-remote.js';
import { createGitSource } from '../../../server/policy/source/git-source.js';
import { branchesText, remoteBranches } from '../../../server/policy/source/remote-branches.js';
import { UsageError } from '../../kit/run-program.js';
import { diskObjects, findRepository, type LocalRepository, listFolder } from './disk-files.js';

const GIT_TIMEOUT_MS = 60_000;
/** The commit of files on disk, which have none. */
const NO_COMMIT = '0'.repeat(40);

/** What to check. */
export interface ContentRequest {
  /** A folder, or the address of a repository. */
  readonly target: string;
  readonly branch: string | undefined;
  readonly commit: string | undefined;
  readonly sshKey: Secret | undefined;
  readonly fetchTimeoutMs: number;
}

/** Files to check: those of a commit, or of a folder as it lies on disk. */
export interface CheckedContent extends AsyncDisposable {
  /** For people. */
  readonly text: string;
  readonly target: string;
  /** Null: as it lies on disk. */
  readonly commit: string | null;
  /** For the parts that need a commit. */
  readonly hash: string;
  readonly objects: GitObjects;
  /** Symbolic links and submodules. */
  readonly links: readonly string[];
}

/**
 * Opens what is to be checked. A folder is read as it lies on disk, unless a branch or a commit is
 * named; a repository elsewhere is fetched into a temporary folder. Rejects with `git_failed`,
 * `git_branch_missing` or a usage error.
 */
export async function openContent(request: ContentRequest, env: NodeJS.ProcessEnv): Promise<CheckedContent> {
  const { target, branch, commit } = request;
  const found = isAddress(target) ? undefined : await stat(target).catch(() => undefined);
  if (found === undefined) {
    if (!isAddress(target)) throw new UsageError(`there is no folder ${target}, and it is no address of a repository`);
    return await openRemote(request, env);
  }
  if (!found.isDirectory()) throw new UsageError(`${target} is no folder: check the folder of a policy repository`);
  const folder = resolve(target);
  const repository = await findRepository(folder);
  if (branch === undefined && commit === undefined && repository?.gitDir !== folder) {
    return await openFolder(target, folder, repository, env);
  }
  if (repository === undefined)
    throw new UsageError(`${target} is in no git repository: leave out --branch and --commit`);
  return await openLocal({ ...request, repository }, env);
}

/** Whether a text is the address of a repository elsewhere: a URL, or `user@host:path`. */
function isAddress(text: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(text) || /^[^/\\:@]+@[^/:]+:/.test(text);
}

async function openFolder(
  target: string,
  folder: string,
  repository: LocalRepository | undefined,
  env: NodeJS.ProcessEnv,
): Promise<CheckedContent> {
  const { files, links, isUnfiltered } = await listFolder(folder, repository, env);
  const more = isUnfiltered ? ', with the files that git ignores: there is no git program' : '';
  return {
    text: `${target} as it lies on disk${more}`,
    ...{ target, commit: null, hash: NO_COMMIT, links },
    objects: diskObjects(folder, files),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

async function openLocal(
  { target, branch, commit, repository }: ContentRequest & { repository: LocalRepository },
  env: NodeJS.ProcessEnv,
): Promise<CheckedContent> {
  const git = createGitCommand({ gitDir: repository.gitDir, env, isForeign: true });
  const wanted = commit ?? (branch === undefined ? 'HEAD' : `refs/heads/${branch}`);
  const hash = await commitOf(git, wanted);
  if (hash === undefined)
    throw missing(commit, branch ?? 'HEAD', target, commit === undefined ? await branchesOf(git) : []);
  return await contentOf(git, hash, { target, branch: commit === undefined ? branch : undefined });
}

async function openRemote(request: ContentRequest, env: NodeJS.ProcessEnv): Promise<CheckedContent> {
  const { target, commit, sshKey, fetchTimeoutMs } = request;
  const folder = await temporaryFolder('policysync-check-');
  const remove = () => rm(folder, { recursive: true, force: true });
  try {
    const { display } = parseGitRemote(target);
    const clonePath = join(folder, 'repository');
    const followed = await followedBranch(request, folder, env);
    const source = createGitSource(
      { url: target, branch: followed, clonePath, sshKey, fetchTimeoutMs, env },
      { log: silentLogger() },
    );
    const head = await source.fetch(new AbortController().signal);
    const git = createGitCommand({ gitDir: clonePath, env });
    const hash = commit === undefined ? head : await commitOf(git, commit);
    if (hash === undefined) throw missing(commit, followed, display, []);
    return { ...(await contentOf(git, hash, { target: display, branch: followed })), [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The branch that is asked for, or the one that a clone of the repository would have. */
async function followedBranch(
  { target: url, branch, sshKey }: ContentRequest,
  keyFolder: string,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const question = { url, sshKey, keyFolder, env, timeoutMs: GIT_TIMEOUT_MS };
  const { head, commits, display } = await remoteBranches(question, new AbortController().signal);
  if (branch !== undefined && !commits.has(branch)) {
    throw missing(undefined, branch, display, [...commits.keys()]);
  }
  const followed = branch ?? head;
  if (followed !== undefined) return followed;
  throw new SyncError('git_branch_missing', `${display} does not say its default branch: name one with --branch`);
}

async function commitOf(git: GitCommand, revision: string): Promise<string | undefined> {
  const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${revision}^{commit}`];
  try {
    return (await git.run(args, { timeoutMs: GIT_TIMEOUT_MS })).toString('utf8').trim();
  } catch (error) {
    if (error instanceof SyncError && error.code === 'git_failed') return undefined; // the caller says what is missing
    throw error;
  }
}

async function contentOf(
  git: GitCommand,
  hash: string,
  { target, branch }: { target: string; branch: string | undefined },
): Promise<CheckedContent> {
  const tree = await git.run(['ls-tree', '-r', '-z', '--full-tree', hash], { timeoutMs: GIT_TIMEOUT_MS });
  // 120000 is a symbolic link, 160000 a submodule.
  const links = [...tree.toString('utf8').matchAll(/(?:^|\0)1[26]0000 [^\t]*\t([^\0]*)/g)].map(([, path = '']) => path);
  const of = branch === undefined ? '' : ` of branch ${branch}`;
  return {
    text: `${target} at commit ${hash.slice(0, 10)}${of}`,
    ...{ target, commit: hash, hash, links, objects: createGitObjects(git) },
    [Symbol.asyncDispose]: async () => undefined,
  };
}

/** The branches of a repository on this machine. */
async function branchesOf(git: GitCommand): Promise<string[]> {
  const refs = await git.run(['for-each-ref', '--format=%(refname)', 'refs/heads'], { timeoutMs: GIT_TIMEOUT_MS });
  return [...refs.toString('utf8').matchAll(/^refs\/heads\/(.+)$/gm)].map(([, name = '']) => name);
}

function missing(commit: string | undefined, branch: string, target: string, branches: readonly string[]): SyncError {
  if (commit !== undefined) return new UsageError(`${target} has no commit ${commit}`);
  return new SyncError('git_branch_missing', `branch ${branch} does not exist in ${target}; ${branchesText(branches)}`);
}
