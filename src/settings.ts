import { CLIENT_SETTINGS } from './client/options.js';
import type { SettingSources } from './lib/settings/given-setting.js';
import { type LoadedSettings, readSettings as loadKnowing } from './lib/settings/options.js';
import { envNames, type Settings, secretFileEnv } from './lib/settings/setting.js';
import { SERVER_SETTINGS } from './server/options.js';

/** The sections of the configuration file, with the settings of each. */
export const SECTIONS = { server: SERVER_SETTINGS, client: CLIENT_SETTINGS } as const satisfies Record<
  string,
  Settings
>;

/** The variable with the path of the configuration file. */
export const CONFIG_VARIABLE = 'SYNC_CONFIG';

/** Variables that only a command such as `token` reads. */
const COMMAND_VARIABLES = ['SYNC_MASTER_TOKEN', 'OPAL_MASTER_TOKEN'];

/** Every variable that a program of ours reads: one environment may serve all of them. */
function knownVariables(): string[] {
  return [
    CONFIG_VARIABLE,
    ...COMMAND_VARIABLES,
    ...COMMAND_VARIABLES.map(secretFileEnv),
    ...Object.values(SECTIONS).flatMap((settings: Settings) => Object.values(settings).flatMap(envNames)),
  ];
}

/**
 * Reads settings, all of a program or some: a flag counts before the environment, the environment
 * before the file, the file before the default. Throws `config_invalid` that names every bad value
 * at once, and each SYNC_ or OPAL_ variable that is nearly one of ours.
 */
export function loadSettings<S extends Settings>(settings: S, sources: SettingSources): LoadedSettings<S> {
  return loadKnowing(settings, sources, knownVariables());
}
