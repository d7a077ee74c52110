import { lstat, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { whyUnwritable } from '../lib/file-problem.js';
import { expandHome } from '../lib/home-path.js';
import { replaceFile } from '../lib/private-files.js';
import { UsageError } from './run-program.js';

/**
 * Throws {@link UsageError} if `file` cannot become a file of secrets: a link leads to a place that somebody else may have chosen, and
 * a folder, a pipe or a device is none. `option` names it.
 */
export async function checkSecretFile(option: string, file: string): Promise<void> {
  const path = expandHome(file);
  const found = await lstat(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' && (await stat(dirname(path)).catch(() => undefined))?.isDirectory()) return undefined;
    throw new UsageError(`${option}: ${file} cannot be written: ${whyUnwritable(error)}`);
  });
  if (found === undefined || found.isFile()) return;
  const what = found.isSymbolicLink() ? 'a link' : found.isDirectory() ? 'a folder' : 'no regular file';
  throw new UsageError(`${option}: ${file} is ${what}: give the path of the file itself, which is made or replaced`);
}

/** Writes a file that its owner alone may read, in place of another one with whatever rights. Throws {@link UsageError} as {@link checkSecretFile}. */
export async function writeSecretFile(option: string, file: string, text: string): Promise<void> {
  await checkSecretFile(option, file);
  try {
    await replaceFile(expandHome(file), `${text}\n`);
  } catch (error) {
    throw new UsageError(`${option}: ${file} cannot be written: ${whyUnwritable(error)}`);
  }
}
