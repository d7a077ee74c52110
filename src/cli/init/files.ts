import { chmod, lstat, mkdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorText } from '../../lib/errors.js';
import { UsageError } from '../run-program.js';

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
 * Writes all files, or none if one is there already and not `force`. Throws {@link UsageError} that names those, or the one that cannot
 * be written.
 */
export async function writeFiles(
  folder: string,
  files: readonly NewFile[],
  { force }: { readonly force: boolean },
): Promise<void> {
  const existing = await Promise.all(
    files.map(async ({ path }) => ((await isThere(join(folder, path))) ? [path] : [])),
  );
  const there = existing.flat();
  if (there.length > 0 && !force) {
    throw new UsageError(
      `${folder} has ${there.slice(0, 5).join(', ')} already: choose another folder, or replace ${there.length === 1 ? 'it' : 'them'} with --force`,
    );
  }
  for (const { path, text, mode } of files) {
    const file = join(folder, path);
    try {
      await mkdir(dirname(file), { recursive: true });
      const [top = ''] = path.split('/');
      if (PRIVATE_FOLDERS.includes(top)) await chmod(join(folder, top), 0o700);
      await rm(file, { force: true }); // the mode counts only for a new file
      await writeFile(file, text, { flag: 'wx', mode });
    } catch (error) {
      throw new UsageError(`${file} cannot be written: ${errorText(error)}`);
    }
  }
}

async function isThere(file: string): Promise<boolean> {
  return lstat(file).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code !== 'ENOENT' && error.code !== 'ENOTDIR',
  );
}
