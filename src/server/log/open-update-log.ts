import type { Logger, Secret } from '../../lib/observe/log.js';
import { openFolderProblem } from '../../lib/settings/private-files.js';
import { openBackbone } from './backbone/open-backbone.js';
import { retryUntilAvailable } from './backbone/retry-until-available.js';
import { FoldedLog } from './folded-log.js';
import { DEDUP_LIMITS, type LogStore, type Mail, type Presence } from './log-store.js';
import { openSqliteStore } from './sqlite/sqlite-store.js';
import type { UpdateLog } from './update-log.js';

/** The settings of a server that its log depends on, by their names. */
export interface UpdateLogSettings {
  readonly stateDir: string;
  readonly broadcastUri?: Secret | undefined;
  readonly broadcastChannelName: string;
  readonly broadcastNatsSyncAlways: boolean;
  readonly patchesPerPath: number;
  readonly logRetentionMs: number;
  readonly logRetentionRecords: number;
  readonly idempotencyKeys: number;
}

/** The update log of a server, with its presence and its release. */
export interface OpenedUpdateLog {
  readonly updateLog: UpdateLog;
  /** Whether other instances may use the log. */
  readonly isShared: boolean;
  /** Where the instances announce their clients; undefined: there is only this one. */
  readonly presence: Presence | undefined;
  /** Mail between the instances; undefined: there is only this one. */
  readonly mail: Mail | undefined;
  /** Releases the log and the state folder. */
  close(): Promise<void>;
}

/**
 * Opens the update log: in the backbone of SYNC_BROADCAST_URI if set, otherwise in the state
 * folder, which is locked in both cases. Rejects with `state_dir_in_use`, `state_dir_unusable`,
 * `log_damaged`, `log_unwritable`, `config_invalid` or `backbone_unavailable`, or with the signal's
 * reason if it aborts while waiting for a backbone.
 */
export async function openUpdateLog(
  settings: UpdateLogSettings,
  deps: { log: Logger; signal: AbortSignal },
): Promise<OpenedUpdateLog> {
  const { stateDir, broadcastUri: uri, broadcastChannelName: name, patchesPerPath } = settings;
  const retention = { maxAgeMs: settings.logRetentionMs, maxRows: settings.logRetentionRecords };
  const dedup = { ...DEDUP_LIMITS, rows: settings.idempotencyKeys };
  const options = { exclusive: uri === undefined, retention, patchesPerPath };
  // Opened with a backbone as well: its lock protects the policy mirror in the folder.
  const embedded = await openSqliteStore({ stateDir, dedup });
  return await orClose(embedded, async () => {
    const problem = await openFolderProblem(stateDir);
    if (problem !== undefined) deps.log.warn({ state_dir: stateDir }, `SYNC_STATE_DIR: ${problem}`);
    if (uri === undefined) {
      const updateLog = await FoldedLog.open(embedded, options, deps);
      const close = (): Promise<void> => updateLog.close();
      return { updateLog, isShared: false, presence: undefined, mail: undefined, close };
    }
    await warnOfUnused(embedded, stateDir, deps.log);
    const natsSyncAlways = settings.broadcastNatsSyncAlways;
    const store = await openBackbone({ uri, name, dedup, natsSyncAlways }, deps);
    return await orClose(store, async () => {
      const updateLog = await retryUntilAvailable(() => FoldedLog.open(store, options, deps), deps);
      const close = async (): Promise<void> => {
        await updateLog.close().finally(() => embedded.close());
      };
      return { updateLog, isShared: true, presence: updateLog.presence, mail: store.mail, close };
    });
  });
}

/** Closes a store if what is made of it fails. */
async function orClose<T>(store: LogStore, make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    await store.close();
    throw error;
  }
}

async function warnOfUnused(embedded: LogStore, stateDir: string, log: Logger): Promise<void> {
  const [last] = await embedded.scan({ before: Number.MAX_SAFE_INTEGER }, 1, []);
  if (last === undefined) return;
  log.warn(
    { state_dir: stateDir, head: last.seq },
    'the state folder has an update log of its own, which is not used: SYNC_BROADCAST_URI is set',
  );
}
