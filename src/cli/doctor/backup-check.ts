import { rm } from 'node:fs/promises';
import { createSpool } from '../../client/fetch/spool.js';
import { disposeDocuments, readBackup } from '../../client/offline/backup-reader.js';
import { temporaryFolder } from '../../client/temporary-folder.js';
import { errorText } from '../../lib/errors.js';
import { errorFinding, okFinding } from '../findings.js';
import type { Check } from './checks.js';

/** Whether the backup of offline mode can be used: it is read to its last byte. */
export function backupCheck(path: string): Check {
  const [id, subject] = ['backup', 'backup'];
  return {
    ...{ id, subject },
    remedy: 'It is large: give the check more time with --timeout.',
    run: async (signal) => {
      const dir = await temporaryFolder('policysync-doctor-');
      try {
        const spool = await createSpool({ dir, limitBytes: Number.MAX_SAFE_INTEGER });
        const content = await readBackup(path, spool, signal);
        if (content === undefined)
          return [okFinding(id, subject, 'there is none yet: the client writes it after its first load')];
        await disposeDocuments(content.documents);
        const made = new Date(content.createdMs).toISOString();
        return [okFinding(id, subject, `of ${made}, ${content.documents.length} documents`)];
      } catch (error) {
        signal.throwIfAborted();
        const remedy = `Start the client while the server can be reached: it writes a new one to ${path}.`;
        return [errorFinding(id, subject, errorText(error), remedy)];
      } finally {
        await rm(dir, { recursive: true, force: true });
      }
    },
  };
}
