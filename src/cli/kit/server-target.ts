import type { Command } from 'commander';
import * as z from 'zod';
import { CLIENT_SETTINGS } from '../../client/options.js';
import { SyncError } from '../../lib/errors.js';
import { redactUrl, type Secret } from '../../lib/observe/log.js';
import { withoutEnd } from '../../lib/run/without-end.js';
import { originName } from '../../lib/settings/given-setting.js';
import type { CommandIo } from './command-io.js';
import { addConfigOption, connectionFlags, loadProgramSettings, printWarnings } from './program-settings.js';
import { UsageError } from './run-program.js';
import { peerTypeOf } from './token-claims.js';

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
export interface ServerTarget {
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
 * SYNC_SERVER_URL as text: {@link checkedUrl} judges it, since commands take fewer schemes than a
 * client.
 */
const URL_TEXT = {
  ...CLIENT_SETTINGS.serverUrl,
  schema: () => z.string().transform((text) => withoutEnd(text.trim(), '/')),
};

/**
 * The server and the token that the options, or the settings of a client, name; `io` is from
 * `withConfig`. Throws {@link UsageError} for another scheme.
 */
export function serverTarget(options: TargetOptions, { env, stderr }: CommandIo): ServerTarget {
  const { values, origins, warnings } = loadProgramSettings(
    'client',
    { serverUrl: URL_TEXT, clientToken: CLIENT_SETTINGS.clientToken },
    { env, ...connectionFlags(options) },
  );
  printWarnings(warnings, stderr);
  const { serverUrl, clientToken } = values;
  return { url: checkedUrl(serverUrl, originName(URL_TEXT, origins.serverUrl)), token: clientToken };
}

/**
 * The same for a command that publishes, or reads who did. A token of another type is never sent: a
 * client that is set up on this machine has one, and it is not meant for that. Throws
 * `token_refused`.
 */
export function publisherTarget(options: TargetOptions, io: CommandIo): ServerTarget {
  const target = serverTarget(options, io);
  const type = target.token === undefined ? undefined : peerTypeOf(target.token);
  if (type === undefined || type === 'datasource') return target;
  const { origins } = loadProgramSettings(
    'client',
    { clientToken: CLIENT_SETTINGS.clientToken },
    { env: io.env, ...connectionFlags(options) },
  );
  const from = originName(CLIENT_SETTINGS.clientToken, origins.clientToken);
  throw new SyncError(
    'token_refused',
    `nothing was sent: the token of ${from} is of type ${type}, and this needs one of type datasource`,
  );
}

/**
 * The server alone, for a command that the token of a client is no use to: its file may not be
 * there yet.
 */
export function serverUrlOf(serverUrl: string | undefined, { env, stderr }: CommandIo): string {
  const sources = { env, ...connectionFlags({ serverUrl }) };
  const { values, origins, warnings } = loadProgramSettings('client', { url: URL_TEXT }, sources);
  printWarnings(warnings, stderr);
  return checkedUrl(values.url, originName(URL_TEXT, origins.url));
}

/**
 * A URL that a command can ask. Throws {@link UsageError} with `name`, and with the URL that was
 * probably meant.
 */
export function checkedUrl(url: string, name: string): string {
  const hasScheme = /^https?:\/\//i.test(url);
  if (hasScheme && URL.canParse(url)) return url;
  const shown = redactUrl(url);
  const meant = shown.includes('***') ? undefined : meantUrl(url);
  throw new UsageError(
    `${name} must ${hasScheme ? 'be a URL' : 'start with http:// or https://'} (is ${JSON.stringify(shown)})${meant === undefined ? '' : `; ${meant} may be meant`}`,
  );
}

/** The URL of the same place with http or https; undefined: there is none. */
function meantUrl(text: string): string | undefined {
  const url = /^wss?:\/\//i.test(text) ? text.replace(/^ws/i, 'http') : `http://${text}`;
  return /^https?:\/\/[^/:]+(?::\d+)?(?:\/|$)/i.test(url) && URL.canParse(url) ? url : undefined;
}
