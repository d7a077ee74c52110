import { SyncError } from '../../lib/errors.js';
import { type Logger, redactUrl, type Secret } from '../../lib/log.js';
import type { LogStore } from '../log/log-store.js';
import { BACKBONE_TIMES, type BackboneTimes } from './session-keeper.js';

/** What {@link openBackbone} is made with. */
export interface BackboneOptions {
  /** SYNC_BROADCAST_URI. */
  readonly uri: Secret;
  /** SYNC_BROADCAST_CHANNEL_NAME: two logs with different names in one backbone have nothing to do with each other. */
  readonly name: string;
  /** SYNC_BROADCAST_NATS_SYNC_ALWAYS. */
  readonly natsSyncAlways?: boolean;
  /** For tests. */
  readonly times?: Partial<BackboneTimes>;
}

/** What stands in names of tables, keys and streams everywhere; Postgres cuts names at 63 bytes. */
const NAME = /^[A-Za-z0-9_-]{1,40}$/;

/**
 * Opens the log that several server instances share, chosen by the scheme of the address: `postgres`, `postgresql`; `redis`, `rediss`;
 * `nats`, `tls`. What it needs is loaded then. Rejects with `config_invalid`, with `backbone_unavailable` when nothing answers for
 * half a minute, with `log_damaged` when a newer version made the log, with its reason when the signal aborts that wait.
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

/** One address; NATS takes several with commas between them. */
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
