import { constants } from 'node:fs';
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/** The rights of users other than the owner: read, write, enter. */
const OTHERS = 0o077;
const OTHERS_WRITE = 0o022;
/** Windows has no such rights. */
const HAS_MODES = process.platform !== 'win32';

/** What others may do with a folder, and the command that ends it. */
export interface OpenFolder {
  readonly what: string;
  readonly command: string;
}

/**
 * What is wrong with the rights of a folder of secrets or state; undefined if only the owner has
 * rights, or the folder cannot be read, which its user reports. With `writeOnly` others may read
 * it, since the files in it are private.
 */
export async function openFolder(
  folder: string,
  { writeOnly = false }: { readonly writeOnly?: boolean } = {},
): Promise<OpenFolder | undefined> {
  if (!HAS_MODES) return undefined;
  const mode = await stat(folder).then(
    (found) => found.mode,
    () => 0,
  );
  if ((mode & (writeOnly ? OTHERS_WRITE : OTHERS)) === 0) return undefined;
  const may = (mode & OTHERS_WRITE) === 0 ? 'read by' : 'written to by';
  const what = `the folder ${folder} may be ${may} other users of this machine (mode ${(mode & 0o777).toString(8)})`;
  return { what, command: `chmod 700 ${folder}` };
}

/** {@link openFolder} as one sentence. */
export async function openFolderProblem(...args: Parameters<typeof openFolder>): Promise<string | undefined> {
  const found = await openFolder(...args);
  return found && `${found.what}: ${found.command}`;
}

/**
 * Removes the rights of other users from files, and returns those files where that failed. Skips
 * missing files.
 */
export async function makePrivate(files: readonly string[]): Promise<string[]> {
  const open: string[] = [];
  if (!HAS_MODES) return open;
  for (const file of files) {
    try {
      const { mode } = await stat(file);
      if ((mode & OTHERS) !== 0) await chmod(file, mode & 0o700);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') open.push(file);
    }
  }
  return open;
}

/**
 * The same for everything in a folder, at any depth. Skips links and files that disappear
 * meanwhile.
 */
export async function makeTreePrivate(folder: string): Promise<void> {
  if (!HAS_MODES) return;
  for (const { name, parentPath } of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(parentPath, name);
    try {
      const found = await lstat(path);
      if (!found.isSymbolicLink() && (found.mode & OTHERS) !== 0) await chmod(path, found.mode & 0o700);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
}

/**
 * Runs short synchronous work, such as the start of another program, whose files are then readable
 * by the owner alone. In a worker thread, which cannot set this, they have the rights that the
 * process gives.
 */
export function withPrivateFiles<T>(work: () => T): T {
  if (!isMainThread) return work();
  const before = process.umask(OTHERS);
  try {
    return work();
  } finally {
    process.umask(before);
  }
}

/**
 * Makes a folder, and those above it that are missing; only the owner may enter them unless `mode`
 * says more. The `recursive` of Node tries for ever where a folder that is there takes none, as in
 * `/proc`.
 */
export async function makeFolder(folder: string, mode = 0o700): Promise<void> {
  if (await isMade(folder, mode)) return;
  const above = dirname(folder);
  await makeFolder(above, mode);
  if (!(await isMade(folder, mode))) throw new Error(`no folder can be made in ${above}`);
}

/** Whether a folder is there now; false: one above it is not. */
async function isMade(folder: string, mode: number): Promise<boolean> {
  try {
    await mkdir(folder, { mode });
    return true;
  } catch (error) {
    if (await isFolder(folder)) return true;
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
}

/**
 * Replaces a file by one that only its owner may read. A crash leaves the old one or the new one,
 * and perhaps a `tmp_` file beside it.
 */
export async function replaceFile(path: string, text: string): Promise<void> {
  const temporary = join(dirname(path), `tmp_${basename(path)}`);
  await rm(temporary, { force: true }); // the mode counts only for a new file
  const file = await open(temporary, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
}

/**
 * Adds to a file that is there, and returns when it is on the disk. A crash may leave a part of the
 * text.
 */
export async function appendSynced(path: string, text: string): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_APPEND);
  try {
    await file.writeFile(text);
    await file.datasync();
  } finally {
    await file.close();
  }
}

/** No file of ours that is read at once is longer. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

/**
 * The text of a file; undefined where there is none. Rejects for one that is too long to be ours.
 */
export async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    const { size } = await stat(path);
    if (size > MAX_FILE_BYTES) throw new Error(`${path} has ${size} bytes, more than ${MAX_FILE_BYTES}`);
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
