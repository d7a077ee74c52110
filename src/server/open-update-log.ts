import type { Logger } from '../lib/log.js';
import { openFolderProblem } from '../lib/private-files.js';
import { openBackbone } from './backbone/open-backbone.js';
import { retryUntilAvailable } from './backbone/retry-until-available.js';
import { FoldedLog } from './log/folded-log.js';
import type { Mail, Presence } from './log/log-store.js';
import { openSqliteStore } from './log/sqlite-store.js';
import type { UpdateLog } from './log/update-log.js';
import type { ServerOptions } from './options.js';

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
 * Opens the update log: in the backbone of SYNC_BROADCAST_URI if set, otherwise in the state folder, which is locked in both
 * cases. Rejects with `state_dir_in_use`, `state_dir_unusable`, `log_damaged`, `log_unwritable`, `config_invalid` or
 * `backbone_unavailable`, or with the signal's reason if it aborts while waiting for a backbone.
 */
export async function openUpdateLog(
  settings: ServerOptions,
  deps: { log: Logger; signal: AbortSignal },
): Promise<OpenedUpdateLog> {
  const { stateDir, broadcastUri: uri, broadcastChannelName: name, patchesPerPath } = settings;
  const retention = { maxAgeMs: settings.logRetentionMs, maxRows: settings.logRetentionRecords };
  // Opened with a backbone as well: its lock protects the policy mirror in the folder from a second server.
  const embedded = await openSqliteStore({ stateDir });
  const problem = await openFolderProblem(stateDir);
  if (problem !== undefined) deps.log.warn({ state_dir: stateDir }, `SYNC_STATE_DIR: ${problem}`);
  if (uri === undefined) {
    try {
      const updateLog = await FoldedLog.open(embedded, { exclusive: true, retention, patchesPerPath }, deps);
      return { updateLog, isShared: false, presence: undefined, mail: undefined, close: () => updateLog.close() };
    } catch (error) {
      await embedded.close();
      throw error;
    }
  }
  try {
    const [last] = await embedded.scan({ before: Number.MAX_SAFE_INTEGER }, 1, []);
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
      return { updateLog, isShared: true, presence: updateLog.presence, mail: store.mail, close };
    } catch (error) {
      await store.close();
      throw error;
    }
  } catch (error) {
    await embedded.close();
    throw error;
  }
}
