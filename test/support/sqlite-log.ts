import type { Logger } from '../../src/lib/observe/log.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import type { RetentionLimits } from '../../src/server/log/retention.js';
import { openSqliteStore } from '../../src/server/log/sqlite/sqlite-store.js';
import type { UpdateLog } from '../../src/server/log/update-log.js';

const DEFAULT_RETENTION: RetentionLimits = { maxAgeMs: 7 * 24 * 60 * 60 * 1000, maxRows: 50_000 };
const DEFAULT_PATCHES_PER_PATH = 1000;

/** What {@link openSqliteLog} is made with. */
export interface SqliteLogOptions {
  /** SYNC_STATE_DIR; made when it is not there. */
  readonly stateDir: string;
  readonly retention?: RetentionLimits | undefined;
  readonly patchesPerPath?: number | undefined;
}

/**
 * Opens the embedded update log, or makes it: for one server alone. Rejects with `state_dir_in_use`, `state_dir_unusable`,
 * `log_damaged` or `log_unwritable`; each names the file.
 */
export async function openSqliteLog(
  { stateDir, retention = DEFAULT_RETENTION, patchesPerPath = DEFAULT_PATCHES_PER_PATH }: SqliteLogOptions,
  deps: { log: Logger; now?: () => number },
): Promise<UpdateLog> {
  const store = await openSqliteStore({ stateDir }, deps);
  try {
    return await FoldedLog.open(store, { exclusive: true, retention, patchesPerPath }, deps);
  } catch (error) {
    await store.close();
    throw error;
  }
}
