import { lstat, readdir, readFile, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SyncError } from '../../../lib/errors.js';
import { comparePaths } from '../../../server/policy/bundle/directories.js';
import { tooManyBytes } from '../../../server/policy/bundle/review.js';
import { createGitCommand } from '../../../server/policy/source/git-command.js';
import { BLOBS_LIMIT_BYTES, type GitObjects } from '../../../server/policy/source/git-objects.js';

const GIT_TIMEOUT_MS = 60_000;

/** The files of a folder, as a commit of them would have them. */
export interface DiskFiles {
  /** Paths below the folder, in byte order. */
  readonly files: readonly string[];
  /** Symbolic links and submodules, which bundles leave out. */
  readonly links: readonly string[];
  /** There is no git program to say which files it ignores: they are here, too. */
  readonly isUnfiltered: boolean;
}

/** A git repository on this machine. */
export interface LocalRepository {
  readonly gitDir: string;
  /** Undefined: a bare repository. */
  readonly workTree: string | undefined;
}

/** Finds the repository that a folder is in; undefined if it is in none. */
export async function findRepository(folder: string): Promise<LocalRepository | undefined> {
  if (await isGitDir(folder)) return { gitDir: folder, workTree: undefined };
  for (let at = folder; ; at = dirname(at)) {
    const place = join(at, '.git');
    if (await isGitDir(place)) return { gitDir: place, workTree: at };
    // A linked work tree or a submodule has a file that names the folder.
    const named = /^gitdir: (.*)$/m.exec(await readFile(place, 'utf8').catch(() => ''))?.[1];
    if (named !== undefined) return { gitDir: join(named.startsWith('/') ? '' : at, named), workTree: at };
    if (at === dirname(at)) return undefined;
  }
}

async function isGitDir(folder: string): Promise<boolean> {
  const names: readonly string[] = await readdir(folder).catch(() => []); // it is no folder
  return ['HEAD', 'objects', 'refs'].every((name) => names.includes(name));
}

/** Lists a folder: what git follows or would add, or all files where git has nothing of it. */
export async function listFolder(
  folder: string,
  repository: LocalRepository | undefined,
  env: NodeJS.ProcessEnv,
): Promise<DiskFiles> {
  const isFollowed = repository?.workTree !== undefined;
  const known = isFollowed ? await filesOfGit(folder, repository, env) : [];
  const paths = known !== undefined && known.length > 0 ? known : await walk(folder, '');
  const linkOf = await linkedFolders(folder);
  const files: string[] = [];
  const links = new Set<string>();
  for (const path of paths.sort(comparePaths)) {
    const found = await lstat(join(folder, path)).catch(() => undefined); // removed, and not yet committed
    if (found === undefined) continue;
    const link = await linkOf(path);
    if (link !== undefined) links.add(link);
    else if (found.isFile()) files.push(path);
    else links.add(path);
  }
  return { files, links: [...links], isUnfiltered: known === undefined };
}

/**
 * Finds the folder above a path that is a symbolic link now: git still lists what it has from
 * before, and a file there is one of somewhere else.
 */
async function linkedFolders(folder: string): Promise<(path: string) => Promise<string | undefined>> {
  const root = await realpath(folder);
  const known = new Map<string, string | undefined>();
  const linkAt = async (at: string): Promise<string | undefined> => {
    if (at === '.') return undefined;
    if (!known.has(at)) {
      const isReal = (await realpath(join(folder, at))) === join(root, at);
      known.set(at, (await linkAt(dirname(at))) ?? (isReal ? undefined : at));
    }
    return known.get(at);
  };
  return async (path) => await linkAt(dirname(path));
}

/** Returns the files that git follows or would add; undefined if there is no git program. */
async function filesOfGit(
  folder: string,
  { gitDir }: LocalRepository,
  env: NodeJS.ProcessEnv,
): Promise<string[] | undefined> {
  const git = createGitCommand({ gitDir, env, isForeign: true });
  const kinds = ['--cached', '--others', '--exclude-standard'];
  try {
    const listed = await git.run(['-C', folder, 'ls-files', '-z', ...kinds, '--', '.'], { timeoutMs: GIT_TIMEOUT_MS });
    // A file that is not merged is listed several times.
    const paths = new Set(listed.toString('utf8').split('\0'));
    return [...paths].filter((path) => path !== '' && !path.endsWith('/'));
  } catch (error) {
    const cause = error instanceof SyncError ? (error.cause as NodeJS.ErrnoException | undefined) : undefined;
    if (cause?.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Adds the paths of all files below a folder to `paths`, and returns that. */
async function walk(folder: string, below: string, paths: string[] = []): Promise<string[]> {
  for (const entry of await readdir(join(folder, below), { withFileTypes: true })) {
    if (entry.name === '.git') continue;
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) await walk(folder, path, paths);
    else if (entry.isFile() || entry.isSymbolicLink()) paths.push(path);
  }
  return paths;
}

/** What is checked is more than a bundle can have, as in a commit of which most are zeros. */
export class BundleTooLarge extends SyncError {
  constructor(largest: string, bytes: number) {
    super(
      'policy_commit_refused',
      `${tooManyBytes(bytes, BLOBS_LIMIT_BYTES)}; the largest is ${largest}: leave out files with SYNC_BUNDLE_IGNORE`,
    );
  }
}

/** Throws {@link BundleTooLarge} before anything is read. */
async function assertFits(folder: string, paths: ReadonlySet<string>): Promise<void> {
  let [bytes, largest, most] = [0, '', -1];
  for (const path of paths) {
    const { size } = await lstat(join(folder, path));
    bytes += size;
    if (size > most) [largest, most] = [path, size];
  }
  if (bytes > BLOBS_LIMIT_BYTES) throw new BundleTooLarge(largest, bytes);
}

/** Reads files of a folder as the contents of one commit. The id of a content is its path. */
export function diskObjects(folder: string, files: readonly string[]): GitObjects {
  return {
    hasCommit: async () => true,
    isAncestor: async () => false,
    files: async () => files.map((path) => ({ path, blob: path })),
    blobs: async (ids) => {
      const contents = new Map<string, Buffer>();
      await assertFits(folder, new Set(ids));
      for (const id of new Set(ids)) contents.set(id, await readFile(join(folder, id)));
      return contents;
    },
    recall: () => undefined,
  };
}
