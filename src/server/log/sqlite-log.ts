import type { Logger } from '../../lib/log.js';
import { FoldedLog } from './folded-log.js';
import type { KeptRows } from './janitor.js';
import { openSqliteStore } from './sqlite-store.js';
import type { UpdateLog } from './update-log.js';

/** What superseded records are kept for by default: those who were away for a week, and the audit. */
export const DEFAULT_KEPT: KeptRows = { keptMs: 7 * 24 * 60 * 60 * 1000, keptRows: 50_000 };
/** How many patches may stack at a path and topic (design D16). */
export const DEFAULT_PATCHES_PER_PATH = 1000;

/** What {@link openSqliteLog} is made with. */
export interface SqliteLogOptions {
  /** SYNC_STATE_DIR; made when it is not there. */
  readonly stateDir: string;
  readonly kept?: KeptRows | undefined;
  readonly patchesPerPath?: number | undefined;
}

/**
 * Opens the embedded update log, or makes it: for one server alone. Rejects with `state_dir_in_use`, `log_damaged` or
 * `log_unwritable`; each names the file.
 */
export async function openSqliteLog(
  { stateDir, kept = DEFAULT_KEPT, patchesPerPath = DEFAULT_PATCHES_PER_PATH }: SqliteLogOptions,
  deps: { log: Logger; now?: () => number },
): Promise<UpdateLog> {
  const store = await openSqliteStore({ stateDir }, deps);
  try {
    return await FoldedLog.open(store, { exclusive: true, kept, patchesPerPath }, deps);
  } catch (error) {
    await store.close();
    throw error;
  }
}
