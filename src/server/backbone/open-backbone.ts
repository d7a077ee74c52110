import { SyncError } from '../../lib/errors.js';
import { type Logger, redactUrl, type Secret } from '../../lib/log.js';
import type { LogStore } from '../log/log-store.js';
import { BACKBONE_TIMES, type BackboneTimes } from './session-keeper.js';

export interface BackboneOptions {
  /** SYNC_BROADCAST_URI. */
  readonly uri: Secret;
  /** SYNC_BROADCAST_CHANNEL_NAME. Logs with different names in one backbone are independent. */
  readonly name: string;
  /** SYNC_BROADCAST_NATS_SYNC_ALWAYS. */
  readonly natsSyncAlways?: boolean;
  /** For tests. */
  readonly times?: Partial<BackboneTimes>;
}

/** Valid in names of tables, keys and streams; Postgres truncates names at 63 bytes. */
const NAME = /^[A-Za-z0-9_-]{1,40}$/;

/**
 * Opens the log that several server instances share. The scheme of the address chooses the backbone (`postgres`, `postgresql`; `redis`,
 * `rediss`; `nats`, `tls`), and only its driver is loaded. Rejects with `config_invalid`, with `backbone_unavailable` after half a minute
 * without a response, with `log_damaged` if a newer version made the log, and with the signal's reason if that aborts the wait.
 */
export async function openBackbone(
  options: BackboneOptions,
  deps: { log: Logger; signal?: AbortSignal | undefined },
): Promise<LogStore> {
  const { uri, name } = options;
  if (!NAME.test(name)) {
    throw new SyncError('config_invalid', 'SYNC_BROADCAST_CHANNEL_NAME must have 1 to 40 letters, digits, - or _');
  }
  const urls = addresses(uri.reveal());
  const [url] = urls;
  const times = { ...BACKBONE_TIMES, ...options.times };
  const place = { url, name, times };
  switch (url.protocol) {
    case 'postgres:':
    case 'postgresql:': {
      const { openPostgresStore } = await import('./postgres-store.js');
      return await openPostgresStore({ ...place, what: `Postgres at ${url.host}` }, deps);
    }
    case 'redis:':
    case 'rediss:': {
      const { openRedisStore } = await import('./redis-store.js');
      return await openRedisStore({ ...place, what: `Redis at ${url.host}` }, deps);
    }
    case 'nats:':
    case 'tls:': {
      const { openNatsStore } = await import('./nats-store.js');
      const what = `NATS at ${urls.map(({ host }) => host).join(',')}`;
      return await openNatsStore({ name, times, urls, what, syncAlways: options.natsSyncAlways ?? false }, deps);
    }
    default:
      throw new SyncError(
        'config_invalid',
        `SYNC_BROADCAST_URI ${redactUrl(uri.reveal())} must start with postgres://, redis://, rediss://, nats:// or tls://`,
      );
  }
}

/** One address; NATS accepts several, separated by commas. */
function addresses(text: string): readonly [URL, ...URL[]] {
  const isNats = /^(nats|tls):/.test(text);
  const urls: URL[] = [];
  for (const part of isNats ? text.split(',') : [text]) {
    const whole = isNats && !part.includes('://') ? `nats://${part}` : part;
    if (!URL.canParse(whole)) throw new SyncError('config_invalid', 'SYNC_BROADCAST_URI is not a URL');
    urls.push(new URL(whole));
  }
  const [first, ...others] = urls;
  if (first === undefined) throw new SyncError('config_invalid', 'SYNC_BROADCAST_URI is not a URL');
  return [first, ...others];
}
