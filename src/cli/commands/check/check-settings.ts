import type { Command } from 'commander';
import { CLIENT_SETTINGS } from '../../../client/options.js';
import { SERVER_SETTINGS } from '../../../server/options.js';
import { loadProgramSettings } from '../../kit/program-settings.js';
import { givenFlags } from '../../kit/settings-program.js';

/** Options of `policysync check` beside the settings. */
export interface CheckOptions {
  readonly branch?: string;
  readonly commit?: string;
  readonly test?: boolean;
  readonly against?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly config?: string;
  readonly json?: boolean;
  readonly strict?: boolean;
}

const OF_SERVER = {
  policyExtensions: SERVER_SETTINGS.policyExtensions,
  manifestPath: SERVER_SETTINGS.manifestPath,
  bundleIgnore: SERVER_SETTINGS.bundleIgnore,
  policyRepoSshKey: SERVER_SETTINGS.policyRepoSshKey,
};
const OF_CLIENT = {
  policyDirs: CLIENT_SETTINGS.policyDirs,
  engineV0Compat: CLIENT_SETTINGS.engineV0Compat,
  inlineEngineExecPath: CLIENT_SETTINGS.inlineEngineExecPath,
  embeddedEntrypoints: CLIENT_SETTINGS.embeddedEntrypoints,
};
/** The settings that decide what is in a bundle, and how a client reads it. */
export const CHECK_SETTINGS = { ...OF_SERVER, ...OF_CLIENT };

/** The values of the settings of a check. */
export type CheckSettings = ReturnType<typeof checkSettings>;

/**
 * Reads them from flags, environment and configuration file, with some that are no flags of this
 * command.
 */
export function checkSettings(command: Command, env: NodeJS.ProcessEnv) {
  const sources = { env, flags: givenFlags(command, CHECK_SETTINGS) };
  const { policyRepoCloneTimeoutMs } = SERVER_SETTINGS;
  const { inlineEngineConfig, embeddedMaxEntrypoints, embeddedMemoryLimitBytes } = CLIENT_SETTINGS;
  const ofClient = { ...OF_CLIENT, inlineEngineConfig, embeddedMaxEntrypoints, embeddedMemoryLimitBytes };
  return {
    ...loadProgramSettings('server', { ...OF_SERVER, policyRepoCloneTimeoutMs }, sources).values,
    ...loadProgramSettings('client', ofClient, sources).values,
  };
}
