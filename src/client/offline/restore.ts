import { EngineRefusal, engineProblemText } from '../../embedded/vocabulary.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, backoffMs, sleep } from '../../lib/run/async.js';
import type { PolicyEngine } from '../engine/engine.js';
import type { Spool } from '../fetch/spool.js';
import type { EngineCopy } from '../reconcile/engine-copy.js';
import type { EngineKeeper } from '../reconcile/engine-keeper.js';
import type { Status } from '../status/status.js';
import {
  adoptContent,
  type BackedUpParts,
  type BackupSettings,
  loadableContent,
  sealOf,
  wantedContent,
} from './backup-content.js';
import type { BackupContent } from './backup-format.js';
import { disposeDocuments, isEmpty, readBackup } from './backup-reader.js';

/** Dependencies of {@link restoreBackup}. */
export interface RestoreDeps extends BackedUpParts, ResumeDeps {
  readonly spool: Spool;
  readonly keeper: EngineKeeper;
  readonly status: Status;
  readonly log: Logger;
}

/** The result of restoring a backup. */
export interface Restored {
  readonly content: BackupContent;
  /** Whether the client holds the whole file; false if the settings leave something out. */
  readonly isWhole: boolean;
  /** Whether the engine held it already, so that nothing was written. */
  readonly isHeld: boolean;
}

/**
 * Reads the backup and fills the engine with it, all or nothing, unless the engine holds it
 * already; waits for the engine as long as it takes. Returns what was loaded, or undefined if there
 * is no backup. Throws `backup_invalid` when the file cannot be used or the engine refuses its
 * content; then engine and client hold nothing.
 */
export async function restoreBackup(
  options: { path: string; settings: BackupSettings; backoff: BackoffOptions },
  deps: RestoreDeps,
  signal: AbortSignal,
): Promise<Restored | undefined> {
  const { settings, backoff } = options;
  const { keeper, held } = deps;
  const content = await readBackup(options.path, deps.spool, signal);
  if (content === undefined) return undefined;
  const { wanted, unused } = wantedContent(content, settings);
  const isWhole = unused.length === 0 && wanted.policy === content.policy;
  await disposeDocuments(unused);
  let isHeld = false;
  try {
    if (isEmpty(wanted)) {
      throw new SyncError('backup_invalid', 'the backup cannot be used: it has nothing for the topics of this client');
    }
    if (settings.policyUpdaterEnabled && wanted.policy === undefined) {
      const text = 'the backup cannot be used: it has no policy, before which no document is served';
      throw new SyncError('backup_invalid', text);
    }
    // Otherwise the engine holds more than is wanted, which this client could not track.
    if (isWhole) isHeld = await retryUntilAvailable(() => resumeFrom(wanted, deps, signal), backoff, deps.log, signal);
    keeper.begin();
    if (!isHeld) {
      const loadable = loadableContent(wanted);
      const load = () => keeper.exclusive((step) => held.load(loadable, step), signal);
      await retryUntilAvailable(load, backoff, deps.log, signal);
    }
  } catch (error) {
    await disposeDocuments(wanted.documents);
    signal.throwIfAborted();
    throw error;
  }
  adoptContent(wanted, deps, settings);
  deps.status.restored({ hasPolicy: wanted.policy !== undefined });
  return { content: wanted, isWhole, isHeld };
}

/** Retries until the engine accepts or refuses. */
async function retryUntilAvailable<T>(
  attemptOnce: () => Promise<T>,
  backoff: BackoffOptions,
  log: Logger,
  signal: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOnce();
    } catch (error) {
      signal.throwIfAborted();
      const isVerdict = error instanceof EngineRefusal || (error instanceof SyncError && !error.retryable);
      if (isVerdict) throw refusedByEngine(error);
      const waitMs = backoffMs(attempt, backoff);
      log.warn(
        { attempt, retry_in_ms: Math.round(waitMs), ...failureFields(error) },
        'the backup could not be loaded into the engine, will try again',
      );
      await sleep(waitMs, signal);
    }
  }
}

function refusedByEngine(error: unknown): SyncError {
  const [problem] = error instanceof EngineRefusal ? error.problems : [];
  const reason = problem === undefined ? errorText(error) : engineProblemText(problem);
  return new SyncError('backup_invalid', `the backup cannot be used: the engine refuses it: ${reason}`);
}

/** Dependencies of {@link resumeFrom}. */
export interface ResumeDeps {
  readonly engine: Pick<PolicyEngine, 'seals'>;
  readonly keeper: EngineKeeper;
  readonly held: EngineCopy;
}

/**
 * Continues with an engine of an earlier run of this client (design D23): if it has the seal of the
 * backup, it holds exactly that content, and nothing is written. Returns whether it has. Rejects
 * with errors of the engine, and if the content does not fit the settings of this client.
 */
export function resumeFrom(
  content: BackupContent,
  { engine: { seals }, keeper, held }: ResumeDeps,
  signal: AbortSignal,
): Promise<boolean> {
  const seal = sealOf(content);
  if (seals === undefined || seal === undefined) return Promise.resolve(false);
  return keeper.resume(async () => {
    const loadable = loadableContent(content);
    if (!(await seals.claim(seal, signal))) return false;
    held.adopt(loadable);
    return true;
  });
}
