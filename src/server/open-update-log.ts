import type { Logger } from '../lib/log.js';
import { openFolderProblem } from '../lib/private-files.js';
import { openBackbone } from './backbone/open-backbone.js';
import { retryUntilAvailable } from './backbone/retry-until-available.js';
import { FoldedLog } from './log/folded-log.js';
import type { Presence } from './log/log-store.js';
import { openSqliteStore } from './log/sqlite-store.js';
import type { UpdateLog } from './log/update-log.js';
import type { ServerOptions } from './options.js';

/** The update log of a server, and what comes with it. */
export interface OpenedUpdateLog {
  readonly updateLog: UpdateLog;
  /** Other instances may use it, too. */
  readonly isShared: boolean;
  /** Where the instances announce their clients; undefined: there is only this one. */
  readonly presence: Presence | undefined;
  /** Releases the log and the state folder. */
  close(): Promise<void>;
}

/**
 * Opens the update log: in the backbone of SYNC_BROADCAST_URI where there is one, otherwise in the state folder, which is taken
 * in any case. Rejects with `state_dir_in_use`, `log_damaged`, `log_unwritable`, `config_invalid`, `backbone_unavailable`, and with
 * its reason when the signal aborts the wait for a backbone.
 */
export async function openUpdateLog(
  settings: ServerOptions,
  deps: { log: Logger; signal: AbortSignal },
): Promise<OpenedUpdateLog> {
  const { stateDir, broadcastUri: uri, broadcastChannelName: name, patchesPerPath } = settings;
  const retention = { maxAgeMs: settings.logRetentionMs, maxRows: settings.logRetentionRecords };
  // Also with a backbone: its lock keeps a second server off the folder, in which the policy mirror is.
  const embedded = await openSqliteStore({ stateDir });
  const problem = await openFolderProblem(stateDir);
  if (problem !== undefined) deps.log.warn({ state_dir: stateDir }, `SYNC_STATE_DIR: ${problem}`);
  if (uri === undefined) {
    try {
      const updateLog = await FoldedLog.open(embedded, { exclusive: true, retention, patchesPerPath }, deps);
      return { updateLog, isShared: false, presence: undefined, close: () => updateLog.close() };
    } catch (error) {
      await embedded.close();
      throw error;
    }
  }
  try {
    const [last] = await embedded.readBack(Number.MAX_SAFE_INTEGER, 1);
    if (last !== undefined) {
      const fields = { state_dir: stateDir, head: last.seq };
      deps.log.warn(
        fields,
        'the state folder has an update log of its own, which is not used: SYNC_BROADCAST_URI is set',
      );
    }
    const store = await openBackbone({ uri, name, natsSyncAlways: settings.broadcastNatsSyncAlways }, deps);
    try {
      const options = { exclusive: false, retention, patchesPerPath };
      const updateLog = await retryUntilAvailable(() => FoldedLog.open(store, options, deps), deps);
      const close = async (): Promise<void> => {
        await updateLog.close().finally(() => embedded.close());
      };
      return { updateLog, isShared: true, presence: store.presence, close };
    } catch (error) {
      await store.close();
      throw error;
    }
  } catch (error) {
    await embedded.close();
    throw error;
  }
}
