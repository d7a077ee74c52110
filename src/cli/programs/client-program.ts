import { CLIENT_SETTINGS } from '../../client/options.js';
import type { CommandIo } from '../kit/command-io.js';
import { runProgram } from '../kit/run-program.js';
import type { SettingsProgram } from '../kit/settings-program.js';

/** The client as `policysync client` runs it. Its code is loaded when it runs. */
export function clientProgram(io: CommandIo): SettingsProgram<typeof CLIENT_SETTINGS> {
  return {
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
        const { createClient } = await import('../../client/client.js');
        return createClient(loaded.values, { log, env: io.env, rest: {} });
      }),
  };
}
