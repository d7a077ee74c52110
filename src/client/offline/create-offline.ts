import { errorText } from '../../lib/errors.js';
import type { BackoffOptions } from '../../lib/run/async.js';
import type { ClientSettings } from '../options.js';
import { Backup, backupPath } from './backup.js';
import { captureContent } from './backup-content.js';
import { Offline, type OfflineDeps } from './offline.js';
import { type RestoreDeps, restoreBackup } from './restore.js';

/** Dependencies of {@link createOffline}. */
export interface CreateOfflineDeps extends RestoreDeps {
  readonly follower: OfflineDeps['follower'];
  readonly refetch: () => void;
}

/** Timeout of the engine's seal, also at a stop. */
const SEAL_MS = 2000;

/**
 * Creates the offline mode of a client: its connectivity and its backup. They do nothing until they
 * run.
 */
export function createOffline(
  options: {
    settings: ClientSettings;
    env: Readonly<Record<string, string | undefined>>;
    backoff: BackoffOptions;
  },
  deps: CreateOfflineDeps,
): { backup: Backup; offline: Offline } {
  const { settings, env, backoff } = options;
  const { keeper, engine, status, log } = deps;
  // Nothing asks for it without offline mode.
  const path = backupPath(settings, env) ?? '';
  const backup = new Backup(
    { path, intervalMs: settings.backupIntervalMs },
    {
      // Only the state of a ready client may replace the last backup.
      capture: () => keeper.between(() => (status.ready ? captureContent(deps, settings) : undefined)),
      seal: (seal, writes) =>
        keeper.ifHolding(async () => {
          try {
            await engine.seals?.seal(seal, writes, AbortSignal.timeout(SEAL_MS));
          } catch (error) {
            // Without the seal, the next start only has to write everything.
            log.info({ error: errorText(error) }, 'the engine could not be sealed');
          }
        }),
      log,
    },
  );
  const offline = new Offline(
    {
      offlineMode: settings.offlineModeEnabled,
      disconnectDefault: settings.startDisconnected,
      policyEnabled: settings.policyUpdaterEnabled,
    },
    {
      ...deps,
      backup,
      restore: async (signal) => {
        try {
          return await restoreBackup({ path: backup.path, settings, backoff }, deps, signal);
        } finally {
          keeper.begin();
        }
      },
    },
  );
  return { backup, offline };
}
