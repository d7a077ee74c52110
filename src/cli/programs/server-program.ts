import { join } from 'node:path';
import { stateHome } from '../../lib/settings/home-path.js';
import { SERVER_SETTINGS } from '../../server/options.js';
import type { CommandIo } from '../kit/command-io.js';
import { runProgram } from '../kit/run-program.js';
import type { SettingsProgram } from '../kit/settings-program.js';

/** The server as `policysync server` runs it. Its code is loaded when it runs. */
export function serverProgram(io: CommandIo): SettingsProgram<typeof SERVER_SETTINGS> {
  return {
    section: 'server',
    settings: SERVER_SETTINGS,
    essential: {
      'Policy and data': ['policyRepoUrl', 'policyRepoBranch', 'policyRepoPollingIntervalMs', 'dataSources'],
      'Where it listens and keeps its state': ['host', 'port', 'stateDir'],
      'Who may call it': ['authPrivateKey', 'authPublicKey', 'authMasterToken'],
    },
    run: (loaded) =>
      runProgram('sync-server', loaded, io, async (log) => {
        const { createServer } = await import('../../server/server.js');
        const stateDir = loaded.values.stateDir ?? defaultStateDir(io.env);
        return createServer({ ...loaded.values, stateDir }, { env: io.env, log });
      }),
  };
}

/**
 * `policysync/server` in XDG_STATE_HOME, otherwise in `~/.local/state` (XDG Base Directory
 * Specification).
 */
export function defaultStateDir(env: NodeJS.ProcessEnv): string {
  return join(stateHome(env, 'SYNC_STATE_DIR'), 'policysync', 'server');
}
