import type { Command } from 'commander';
import { CLIENT_SETTINGS } from '../client/options.js';
import { redactUrl, type Secret } from '../lib/log.js';
import { addConfigOption, commandSettings, connectionFlags } from './program-settings.js';
import { UsageError } from './run-program.js';

/** The help of `--server-url`. */
export const SERVER_URL = 'the sync server (default: http://localhost:7002; env: SYNC_SERVER_URL)';

/** The options of a command that asks a server. */
export interface TargetOptions {
  serverUrl?: string | undefined;
  token?: string | undefined;
  tokenFile?: string | undefined;
  config?: string;
}

/** Which server to ask, with which token. */
export interface Target {
  readonly url: string;
  readonly token: Secret | undefined;
}

/** Adds `--server-url` and the options of {@link addTokenOptions}. */
export function addTargetOptions(command: Command, types: string): Command {
  return addTokenOptions(command.option('--server-url <url>', SERVER_URL), `token of a ${types}`);
}

/** Adds `--token`, `--token-file` and `--config`; `what`: which token that is. */
export function addTokenOptions(command: Command, what: string): Command {
  return addConfigOption(
    command
      .option('--token <token>', `${what} (env: SYNC_CLIENT_TOKEN)`)
      .option('--token-file <file>', 'file that contains the token (env: SYNC_CLIENT_TOKEN_FILE)'),
  );
}

/**
 * The server and the token that the options, or the settings of a client, name; `env` is from `withConfig`. Throws {@link UsageError}
 * for another scheme.
 */
export function serverTarget(options: TargetOptions, env: NodeJS.ProcessEnv): Target {
  const { serverUrl, clientToken } = commandSettings(
    'client',
    { serverUrl: CLIENT_SETTINGS.serverUrl, clientToken: CLIENT_SETTINGS.clientToken },
    { env, ...connectionFlags(options) },
  );
  return { url: checkedUrl(serverUrl, '--server-url'), token: clientToken };
}

/** The server alone, for a command that the token of a client is no use to: its file may not be there yet. */
export function serverUrlOf(serverUrl: string | undefined, env: NodeJS.ProcessEnv): string {
  const sources = { env, ...connectionFlags({ serverUrl }) };
  return checkedUrl(commandSettings('client', { url: CLIENT_SETTINGS.serverUrl }, sources).url, '--server-url');
}

/** A URL that a command can ask; `option` names it. */
export function checkedUrl(url: string, option: string): string {
  if (/^https?:/.test(url)) return url;
  throw new UsageError(`${option} must start with http:// or https:// (is ${redactUrl(url)})`);
}
