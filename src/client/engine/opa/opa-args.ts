import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type * as z from 'zod';
import { SyncError } from '../../../lib/errors.js';
import { isRecord } from '../../../lib/json/is-record.js';
import { parseJson } from '../../../lib/json/json.js';
import type { inlineEngineConfig } from '../../options.js';

/** Typed value of SYNC_INLINE_ENGINE_CONFIG. */
export type InlineEngineConfig = z.infer<typeof inlineEngineConfig>;

/** SYNC_INLINE_ENGINE_LOG_FORMAT. */
export type EngineLogFormat = 'none' | 'minimal' | 'http' | 'full';

/** Options of the engine's command line. */
export interface OpaArgsOptions {
  /** SYNC_POLICY_STORE_URL: the address if `config.addr` is not set. */
  engineUrl: string;
  config: InlineEngineConfig;
  v0Compatible: boolean;
  logFormat: EngineLogFormat;
}

/**
 * Arguments for `opa` (opal-protocol P6.7), without those for our own configuration (`configArgs`).
 * OPA's check for newer releases is off: we or the operator choose the version.
 */
export function opaArgs(options: OpaArgsOptions, configArgs: readonly string[]): string[] {
  const { config } = options;
  const given = (flag: string, value: string | undefined): string[] =>
    value === undefined ? [] : [`${flag}=${value}`];
  return [
    'run',
    '--server',
    ...((config.v0_compatible ?? options.v0Compatible) ? ['--v0-compatible'] : []),
    `--addr=${listenAddress(options)}`,
    ...given('--authentication', config.authentication),
    ...given('--authorization', config.authorization),
    ...given('--tls-ca-cert-file', config.tls_ca_cert_file),
    ...given('--tls-cert-file', config.tls_cert_file),
    ...given('--tls-private-key-file', config.tls_private_key_file),
    ...given('--tls-cert-refresh-period', config.tls_cert_refresh_period),
    '--log-format=json',
    // At "info" OPA prints two lines for each request; without a reader they only cost time.
    `--log-level=${config.log_level ?? (options.logFormat === 'none' ? 'error' : 'info')}`,
    '--skip-version-check',
    ...configArgs,
    ...(config.files ?? []),
  ];
}

/**
 * Returns the listen address: `addr` of the engine's options, otherwise host and port of its URL.
 */
export function listenAddress({ engineUrl, config }: Pick<OpaArgsOptions, 'engineUrl' | 'config'>): string {
  if (config.addr !== undefined) return config.addr;
  const url = new URL(engineUrl);
  return `${url.hostname}:${url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port}`;
}

/**
 * Host and port of a TCP listen address (`host:port`, `:port`, `[::]:port`); undefined for anything
 * else.
 */
export function splitAddress(address: string): { host: string | undefined; port: number } | undefined {
  const match = /^(?:\[([^\]]*)\]|([^:/]*)):(\d{1,5})$/.exec(address);
  if (match === null) return undefined;
  const host = match[1] ?? match[2] ?? '';
  return { host: host === '' ? undefined : host, port: Number(match[3]) };
}

/** One value of our configuration that overrides the operator's configuration file. */
interface ConfigOverride {
  /** Path in OPA's `--set` notation, with special characters escaped. */
  path: string;
  value: string | number | boolean;
}

/**
 * Converts our configuration to single values. OPA accepts one configuration file; if the operator
 * has one (of any format), ours overrides it value by value. Throws `config_invalid` for values
 * that the notation does not support (lists, null).
 */
export function configOverrides(configText: string): ConfigOverride[] {
  const found: ConfigOverride[] = [];
  const visit = (value: unknown, path: string): void => {
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
      found.push({ path, value });
    } else if (isRecord(value)) {
      for (const [key, inner] of Object.entries(value)) {
        const segment = key.replaceAll(/[\\.,=[\]{}]/g, '\\$&');
        visit(inner, path === '' ? segment : `${path}.${segment}`);
      }
    } else {
      throw new SyncError('config_invalid', `the engine's configuration cannot be combined at "${path}"`);
    }
  };
  visit(parseJson(configText), '');
  return found;
}

/**
 * Writes our configuration into `dir`, readable only by us, and returns the arguments that refer to
 * it. `operatorsFile` is `config_file` of SYNC_INLINE_ENGINE_CONFIG; its own services must then be
 * written as an object, not as a list.
 */
export async function writeConfig(
  dir: string,
  configText: string | undefined,
  operatorsFile: string | undefined,
): Promise<string[]> {
  const write = async (name: string, text: string): Promise<string> => {
    const file = join(dir, name);
    await writeFile(file, text, { mode: 0o600, flag: 'wx' });
    return file;
  };
  if (operatorsFile === undefined) {
    return configText === undefined ? [] : [`--config-file=${await write('config.json', configText)}`];
  }
  const args = [`--config-file=${operatorsFile}`];
  for (const [index, { path, value }] of configOverrides(configText ?? '{}').entries()) {
    // Text is passed in a file: a command line would show a secret, and the text may look like a
    // number.
    args.push(
      typeof value === 'string'
        ? `--set-file=${path}=${await write(`value-${index}`, value)}`
        : `--set=${path}=${value}`,
    );
  }
  return args;
}
