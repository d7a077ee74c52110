import { join } from 'node:path';
import { stateHome } from '../lib/home-path.js';
import { SERVER_SETTINGS } from '../server/options.js';
import type { CommandIo } from './command-io.js';
import { runProgram } from './run-program.js';
import type { SettingsProgram } from './settings-program.js';

/** The server as a program: `sync-server run` and `policysync server`. Its code is loaded when it runs. */
export function serverProgram(io: CommandIo): SettingsProgram<typeof SERVER_SETTINGS> {
  return {
    name: 'sync-server',
    description:
      'Follows a policy repository and accepts data updates; keeps the policy engines of all clients up to date.',
    section: 'server',
    settings: SERVER_SETTINGS,
    essential: {
      'Policy and data': ['policyRepoUrl', 'policyRepoBranch', 'policyRepoPollingIntervalMs', 'dataSources'],
      'Where it listens and keeps its state': ['host', 'port', 'stateDir'],
      'Who may call it': ['authPrivateKey', 'authPublicKey', 'authMasterToken'],
    },
    run: (loaded) =>
      runProgram('sync-server', loaded, io, async (log) => {
        const { createServer } = await import('../server/server.js');
        const stateDir = loaded.values.stateDir ?? defaultStateDir(io.env);
        return createServer({ ...loaded.values, stateDir }, { env: io.env, log });
      }),
  };
}

/** `policysync/server` in XDG_STATE_HOME, otherwise in `~/.local/state` (XDG Base Directory Specification). */
export function defaultStateDir(env: NodeJS.ProcessEnv): string {
  return join(stateHome(env, 'SYNC_STATE_DIR'), 'policysync', 'server');
}
