import { errorText, SyncError } from '../../../lib/errors.js';
import { firstOf } from '../../../lib/run/async.js';
import type { Durability } from '../log-store.js';
import { type BackboneOptions, type BackbonePlace, backbonePlace, requireDriver } from './open-backbone.js';
import type { Session, SessionHooks } from './session-keeper.js';

/** What a backbone says of itself. */
export interface BackboneFacts {
  /** Without secrets: `Postgres at db:5432`. */
  readonly what: string;
  /** Undefined: not known before a server has made the log. */
  readonly durability: Durability | undefined;
}

/**
 * Connects to a backbone and verifies what a server verifies at its start, but creates nothing in
 * it. Rejects with `config_invalid`, or with `backbone_unavailable` where it does not answer or
 * does not accept the credentials.
 */
export async function inspectBackbone(options: BackboneOptions): Promise<BackboneFacts> {
  const place = backbonePlace(options);
  requireDriver(place);
  const { what } = place;
  let lose: (error: unknown) => void = () => undefined;
  const lost = new Promise<never>((_resolve, reject) => {
    lose = reject;
  });
  lost.catch(() => undefined); // raced below
  const hooks: SessionHooks = { hint: () => undefined, mail: () => undefined, lost: (error) => lose(error) };
  let session: Session | undefined;
  try {
    session = await connect(place, hooks, options);
    return { what, durability: await firstOf([durabilityOf(session, place), lost]) };
  } catch (cause) {
    if (cause instanceof SyncError && cause.code !== 'backbone_unavailable') throw cause;
    throw new SyncError('backbone_unavailable', `${what}: ${errorText(cause)}`, { cause, retryable: true });
  } finally {
    session?.end();
  }
}

async function durabilityOf(session: Session, { kind }: BackbonePlace): Promise<Durability | undefined> {
  // Of Postgres and Redis it is a fact of the server, of NATS one of the stream.
  if (kind === 'nats' && (await session.look(0)).epoch === undefined) return undefined;
  return await session.durability();
}

async function connect(place: BackbonePlace, hooks: SessionHooks, options: BackboneOptions): Promise<Session> {
  const { name, times, what } = place;
  switch (place.kind) {
    case 'postgres': {
      const { PostgresSession } = await import('./postgres-session.js');
      const { postgresNames } = await import('./postgres-schema.js');
      return PostgresSession.connect({ url: place.url, what, times, names: postgresNames(name) }, hooks);
    }
    case 'redis': {
      const { RedisSession, redisKeys } = await import('./redis-session.js');
      return RedisSession.connect({ url: place.url, what, times, keys: redisKeys(name) }, hooks);
    }
    case 'nats': {
      const { NatsSession, natsNames } = await import('./nats-session.js');
      const syncAlways = options.natsSyncAlways ?? false;
      return NatsSession.connect({ urls: place.urls, what, times, syncAlways, names: natsNames(name) }, hooks);
    }
  }
}
