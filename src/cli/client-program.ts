import { CLIENT_SETTINGS } from '../client/options.js';
import type { CommandIo } from './command-io.js';
import { runProgram } from './run-program.js';
import type { SettingsProgram } from './settings-program.js';

/** The client as a program: `sync-client run` and `policysync client`. Its code is loaded when it runs. */
export function clientProgram(io: CommandIo): SettingsProgram<typeof CLIENT_SETTINGS> {
  return {
    name: 'sync-client',
    description: 'Keeps a policy engine up to date with the policy and the data that a sync server publishes.',
    section: 'client',
    settings: CLIENT_SETTINGS,
    essential: {
      'What it follows': ['serverUrl', 'clientToken', 'policyDirs', 'dataTopics'],
      'The policy engine': ['engine', 'engineUrl'],
      'Its own API': ['host', 'port', 'authPublicKey'],
      'Without the server': ['offlineModeEnabled'],
    },
    run: (loaded) =>
      runProgram('sync-client', loaded, io, async (log) => {
        const { createClient } = await import('../client/client.js');
        return createClient(loaded.values, { log, env: io.env, rest: {} });
      }),
  };
}
