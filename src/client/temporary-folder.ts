import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SyncError } from '../lib/errors.js';

/** Makes a private folder among the system's temporary files. Rejects with `spool_unwritable`. */
export async function temporaryFolder(prefix: string): Promise<string> {
  try {
    return await mkdtemp(join(tmpdir(), prefix));
  } catch (cause) {
    throw new SyncError('spool_unwritable', `the folder ${tmpdir()} cannot be used for temporary files`, { cause });
  }
}
