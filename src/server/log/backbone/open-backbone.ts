import { SyncError } from '../../../lib/errors.js';
import type { Logger, Secret } from '../../../lib/observe/log.js';
import { requirePackages } from '../../../lib/run/optional-package.js';
import { DEDUP_LIMITS, type DedupLimits, type LogStore } from '../log-store.js';
import { BACKBONE_TIMES, type BackboneTimes } from './session-keeper.js';

export interface BackboneOptions {
  /** SYNC_BROADCAST_URI. */
  readonly uri: Secret;
  /** SYNC_BROADCAST_CHANNEL_NAME. Logs with different names in one backbone are independent. */
  readonly name: string;
  /** SYNC_BROADCAST_NATS_SYNC_ALWAYS. */
  readonly natsSyncAlways?: boolean;
  readonly dedup?: DedupLimits | undefined;
  /** For tests. */
  readonly times?: Partial<BackboneTimes>;
}

/** Valid in names of tables, keys and streams; Postgres truncates names at 63 bytes. */
const NAME = /^[A-Za-z0-9_-]{1,40}$/;

/** Where a backbone is, by the scheme of its address. */
export type BackbonePlace = {
  readonly name: string;
  /** Without secrets, for messages: `Postgres at db:5432`. */
  readonly what: string;
  readonly times: BackboneTimes;
  readonly dedup: DedupLimits;
} & (
  | { readonly kind: 'postgres' | 'redis'; readonly url: URL }
  | { readonly kind: 'nats'; readonly urls: readonly URL[] }
);

/** Reads the settings of a backbone. Throws `config_invalid`. */
export function backbonePlace(options: BackboneOptions): BackbonePlace {
  const { uri, name } = options;
  if (!NAME.test(name)) {
    throw new SyncError('config_invalid', 'SYNC_BROADCAST_CHANNEL_NAME must have 1 to 40 letters, digits, - or _');
  }
  const urls = addresses(uri.reveal());
  const [url] = urls;
  const { dedup = DEDUP_LIMITS } = options;
  const common = { name, dedup, times: { ...BACKBONE_TIMES, ...options.times } };
  switch (url.protocol) {
    case 'postgres:':
    case 'postgresql:':
      return { ...common, kind: 'postgres', url, what: `Postgres at ${url.host}` };
    case 'redis:':
    case 'rediss:':
      return { ...common, kind: 'redis', url, what: `Redis at ${url.host}` };
    case 'nats:':
    case 'tls:':
      return { ...common, kind: 'nats', urls, what: `NATS at ${urls.map(({ host }) => host).join(',')}` };
    default:
      throw new SyncError(
        'config_invalid',
        `SYNC_BROADCAST_URI ${uri.place} must start with postgres://, redis://, rediss://, nats:// or tls://`,
      );
  }
}

const DRIVERS: Readonly<Record<BackbonePlace['kind'], readonly string[]>> = {
  postgres: ['pg'],
  redis: ['ioredis'],
  nats: ['@nats-io/transport-node', '@nats-io/jetstream'],
};

/**
 * Throws `package_missing` unless the driver of a backbone is installed; the message has the
 * command that installs it.
 */
export function requireDriver({ kind, what }: BackbonePlace): void {
  requirePackages(what, DRIVERS[kind]);
}

/**
 * Opens the log that several server instances share. The scheme of the address chooses the backbone
 * (`postgres`, `postgresql`; `redis`, `rediss`; `nats`, `tls`), and only its driver is loaded.
 * Rejects with `config_invalid`, with `package_missing` unless the driver is installed, with
 * `backbone_unavailable` after half a minute without a response, with `log_damaged` if a newer
 * version made the log, and with the signal's reason if that aborts the wait.
 */
export async function openBackbone(
  options: BackboneOptions,
  deps: { log: Logger; signal?: AbortSignal | undefined },
): Promise<LogStore> {
  const place = backbonePlace(options);
  requireDriver(place);
  switch (place.kind) {
    case 'postgres': {
      const { openPostgresStore } = await import('./postgres-store.js');
      return await openPostgresStore(place, deps);
    }
    case 'redis': {
      const { openRedisStore } = await import('./redis-store.js');
      return await openRedisStore(place, deps);
    }
    case 'nats': {
      const { openNatsStore } = await import('./nats-store.js');
      return await openNatsStore({ ...place, syncAlways: options.natsSyncAlways ?? false }, deps);
    }
  }
}

/** One address; NATS accepts several, separated by commas. */
function addresses(text: string): readonly [URL, ...URL[]] {
  const isNats = /^(nats|tls):/.test(text);
  const urls: URL[] = [];
  for (const part of isNats ? text.split(',') : [text]) {
    const whole = isNats && !part.includes('://') ? `nats://${part}` : part;
    if (!URL.canParse(whole) || !whole.includes('://'))
      throw new SyncError('config_invalid', 'SYNC_BROADCAST_URI is not a URL');
    urls.push(new URL(whole));
  }
  const [first, ...others] = urls;
  if (first === undefined) throw new SyncError('config_invalid', 'SYNC_BROADCAST_URI is not a URL');
  return [first, ...others];
}
