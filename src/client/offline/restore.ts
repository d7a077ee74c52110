import { errorText, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { type BackoffOptions, backoffMs, sleep } from '../../lib/loop.js';
import { EngineRefusal, problemText } from '../engine/engine.js';
import type { Spool } from '../fetch/spool.js';
import type { EngineKeeper } from '../reconcile/engine-keeper.js';
import type { Status } from '../status.js';
import {
  adoptContent,
  type BackedUpParts,
  type BackupSettings,
  loadableContent,
  wantedContent,
} from './backup-content.js';
import type { BackupContent } from './backup-format.js';
import { disposeDocuments, isEmpty, readBackup } from './backup-reader.js';

/** What restoring works with. */
export interface RestoreDeps extends BackedUpParts {
  readonly spool: Spool;
  readonly keeper: EngineKeeper;
  readonly status: Status;
  readonly log: Logger;
}

/**
 * Reads the backup and fills the engine with it, all or nothing; waits for the engine as long as it takes. Answers what
 * was loaded, or undefined where there is no backup. Throws `backup_invalid` with the reason when the file cannot be used
 * or the engine refuses what is in it; the engine and the client hold nothing then.
 */
export async function restoreBackup(
  options: { path: string; settings: BackupSettings; backoff: BackoffOptions },
  deps: RestoreDeps,
  signal: AbortSignal,
): Promise<BackupContent | undefined> {
  const { settings } = options;
  const content = await readBackup(options.path, deps.spool, signal);
  if (content === undefined) return undefined;
  const { wanted, unused } = wantedContent(content, settings);
  await disposeDocuments(unused);
  try {
    if (isEmpty(wanted)) {
      throw new SyncError('backup_invalid', 'the backup cannot be used: it has nothing for the topics of this client');
    }
    await load(wanted, options.backoff, deps, signal);
  } catch (error) {
    await disposeDocuments(wanted.documents);
    signal.throwIfAborted();
    throw error;
  }
  adoptContent(wanted, deps, settings);
  deps.status.restored({ hasPolicy: wanted.policy !== undefined });
  return wanted;
}

async function load(
  content: BackupContent,
  backoff: BackoffOptions,
  { applier, keeper, log }: RestoreDeps,
  signal: AbortSignal,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      const loadable = loadableContent(content);
      await keeper.exclusive((step) => applier.load(loadable, step), signal);
      return;
    } catch (error) {
      signal.throwIfAborted();
      const isVerdict = error instanceof EngineRefusal || (error instanceof SyncError && !error.retryable);
      if (isVerdict) throw refusedByEngine(error);
      const waitMs = backoffMs(attempt, backoff);
      log.warn(
        { attempt, retry_in_ms: Math.round(waitMs), error: errorText(error) },
        'the backup could not be loaded into the engine, will try again',
      );
      await sleep(waitMs, signal);
    }
  }
}

function refusedByEngine(error: unknown): SyncError {
  const [problem] = error instanceof EngineRefusal ? error.problems : [];
  const reason = problem === undefined ? errorText(error) : problemText(problem);
  return new SyncError('backup_invalid', `the backup cannot be used: the engine refuses it: ${reason}`);
}
