import type * as z from 'zod';
import type { inlineEngineConfig } from '../options.js';

/** Typed value of SYNC_INLINE_ENGINE_CONFIG. */
export type InlineEngineConfig = z.infer<typeof inlineEngineConfig>;

/** SYNC_INLINE_ENGINE_LOG_FORMAT. */
export type EngineLogFormat = 'none' | 'minimal' | 'http' | 'full';

/** What the engine's command line depends on. */
export interface OpaArgsOptions {
  /** SYNC_POLICY_STORE_URL: gives the address where `config.addr` does not. */
  engineUrl: string;
  config: InlineEngineConfig;
  v0Compatible: boolean;
  logFormat: EngineLogFormat;
}

/**
 * Arguments for `opa` (opal-protocol P6.7), without those for our own configuration, which `configArgs` are. OPA's own
 * look for newer releases is off: the version is chosen by us or by the operator.
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
    // At "info" OPA prints two lines for each request; where nobody reads them they only cost time.
    `--log-level=${config.log_level ?? (options.logFormat === 'none' ? 'error' : 'info')}`,
    '--skip-version-check',
    ...configArgs,
    ...(config.files ?? []),
  ];
}

/** Where the engine listens: `addr` of its options, else host and port of its URL. */
export function listenAddress({ engineUrl, config }: Pick<OpaArgsOptions, 'engineUrl' | 'config'>): string {
  if (config.addr !== undefined) return config.addr;
  const url = new URL(engineUrl);
  return `${url.hostname}:${url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port}`;
}

/** Host and port of a TCP listen address (`host:port`, `:port`, `[::]:port`); undefined for anything else. */
export function splitAddress(address: string): { host: string | undefined; port: number } | undefined {
  const match = /^(?:\[([^\]]*)\]|([^:/]*)):(\d{1,5})$/.exec(address);
  if (match === null) return undefined;
  const host = match[1] ?? match[2] ?? '';
  return { host: host === '' ? undefined : host, port: Number(match[3]) };
}
