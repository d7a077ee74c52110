import { chmod, lstat, mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { whyUnwritable } from '../../../lib/settings/file-problem.js';
import { makeFolder } from '../../../lib/settings/private-files.js';
import { UsageError } from '../../kit/run-program.js';

/** A file that `init` writes. */
export interface NewFile {
  /** In the folder, with slashes. */
  readonly path: string;
  readonly text: string;
  /** 0600: only the owner may read it. */
  readonly mode: 0o600 | 0o644 | 0o755;
  /** What it is for, in a few words; undefined: its name says it. */
  readonly about?: string;
}

/** Folders that only the owner may enter. */
const PRIVATE_FOLDERS = ['secrets', 'state'];

/**
 * Writes all files, or none if one is there already and not `force`. Files that are there are
 * moved, with their rights, into a private folder beside them, whose name is returned: keys and
 * settings cannot be made again. Throws {@link UsageError} that names those, or the one that cannot
 * be written.
 */
export async function writeFiles(
  folder: string,
  files: readonly NewFile[],
  { force }: { readonly force: boolean },
): Promise<string | undefined> {
  const existing = await Promise.all(
    files.map(async ({ path }) => ((await isThere(join(folder, path))) ? [path] : [])),
  );
  const there = existing.flat();
  if (there.length > 0 && !force) {
    throw new UsageError(
      `${folder} has ${there.slice(0, 5).join(', ')} already: choose another folder, or replace ${there.length === 1 ? 'it' : 'them'} with --force`,
    );
  }
  const replaced = there.length === 0 ? undefined : await moveAway(folder, there);
  for (const { path, text, mode } of files) {
    const file = join(folder, path);
    try {
      await makeFolder(dirname(file), 0o777);
      const [top = ''] = path.split('/');
      if (PRIVATE_FOLDERS.includes(top)) await chmod(join(folder, top), 0o700);
      await writeFile(file, text, { flag: 'wx', mode });
    } catch (error) {
      const where = replaced === undefined ? '' : `; what was there is in ${join(folder, replaced)}`;
      throw new UsageError(`${file} cannot be written: ${whyUnwritable(error)}${where}`);
    }
  }
  return replaced;
}

/**
 * Moves files of a folder into a new one in it that git ignores, under the same paths, and returns
 * its name.
 */
async function moveAway(folder: string, paths: readonly string[]): Promise<string> {
  const name = `replaced-${new Date().toISOString().replace(/[-:.]/g, '')}`;
  try {
    await mkdir(join(folder, name), { mode: 0o700 });
    await writeFile(join(folder, name, '.gitignore'), '*\n', { flag: 'wx' });
    for (const path of paths) {
      const kept = join(folder, name, path);
      await makeFolder(dirname(kept));
      await rename(join(folder, path), kept);
    }
  } catch (error) {
    throw new UsageError(`what is in ${folder} cannot be kept in ${join(folder, name)}: ${whyUnwritable(error)}`);
  }
  return name;
}

async function isThere(file: string): Promise<boolean> {
  return lstat(file).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT' && error.code !== 'ENOTDIR',
  );
}
