import { access, constants, stat, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { openFolder } from '../../../lib/settings/private-files.js';
import { errorFinding, type Finding, okFinding, warningFinding } from '../../kit/findings.js';
import type { Check } from './checks.js';

/** Less free space than this is announced. */
const FREE_BYTES = 256 * 1024 * 1024;

/** A folder of a program, and the setting that names it. */
export interface StateFolder {
  readonly id: string;
  readonly subject: string;
  readonly folder: string;
  readonly setting: string;
  /** Others may use it, too: what is made in it is private. */
  readonly isShared?: boolean;
}

/** What a check asks of the system. */
interface FolderDeps {
  /** Whether this user may write into a folder that exists. */
  readonly mayWrite: (folder: string) => Promise<boolean>;
}

/** Whether a folder can be written, or made, by this user; is closed to others; and has room. */
export function folderCheck(
  { id, subject, folder, setting, isShared = false }: StateFolder,
  deps: FolderDeps = { mayWrite: mayWriteInto },
): Check {
  return {
    ...{ id, subject },
    remedy: `Check the disk of ${folder}: it does not respond.`,
    run: async () => [await folderFinding({ id, subject, folder: resolve(folder), setting, isShared }, deps)],
  };
}

async function folderFinding(
  { id, subject, folder, setting, isShared }: Required<StateFolder>,
  { mayWrite }: FolderDeps,
): Promise<Finding> {
  const existing = await nearest(folder);
  const isThere = existing === folder;
  const owner = `Give the user that runs the program the rights to it, or set ${setting} to another folder.`;
  if (!(await stat(existing)).isDirectory())
    return errorFinding(id, subject, `${existing} is not a folder`, `Correct ${setting}.`);
  if (!(await mayWrite(existing))) {
    const what = isThere ? `${folder} cannot be written` : `${folder} cannot be made: ${existing} cannot be written`;
    return errorFinding(id, subject, `${what} by this user`, owner);
  }
  if (!isThere) return okFinding(id, subject, `${folder}, made at the first start`);
  const open = isShared ? undefined : await openFolder(folder);
  if (open !== undefined) return warningFinding(id, subject, open.what, `Run \`${open.command}\`.`);
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  if (free < FREE_BYTES) {
    return warningFinding(
      id,
      subject,
      `${folder}: the disk has ${Math.floor(free / 1024 ** 2)} MiB left`,
      'Make room on it.',
    );
  }
  return okFinding(id, subject, `${folder}, writable${isShared ? '' : ' and private'}`);
}

async function mayWriteInto(folder: string): Promise<boolean> {
  return access(folder, constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** The folder itself, or the nearest one above it that exists. */
async function nearest(folder: string): Promise<string> {
  for (let at = folder; ; at = dirname(at)) {
    try {
      await stat(at);
      return at;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // ENOTDIR: something above it is a file.
      if ((code !== 'ENOENT' && code !== 'ENOTDIR') || at === dirname(at)) throw error;
    }
  }
}
