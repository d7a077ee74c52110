import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { BackboneServer } from '../support/backbone-servers.js';

/** Makes room again. */
export type Emptied = () => Promise<void>;

/** From now on a backbone refuses writes, as one without room does; what it has can be read. */
export async function fill({ kind, uri }: BackboneServer): Promise<Emptied> {
  switch (kind) {
    case 'Redis': {
      const limit = (bytes: string) => withRedis(uri, (redis) => redis.config('SET', 'maxmemory', bytes));
      await limit('1');
      return () => limit('0');
    }
    case 'Postgres': {
      const readOnly = (value: 'on' | 'off') =>
        withPostgres(uri, async (client) => {
          await client.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
          await client.query('SELECT pg_reload_conf()');
        });
      await readOnly('on');
      return () => readOnly('off');
    }
    case 'NATS':
      await limitStreams(uri, (bytes) => bytes + 1);
      return () => limitStreams(uri, () => -1);
  }
}

async function withRedis(uri: string, work: (redis: Redis) => Promise<unknown>): Promise<void> {
  const redis = new Redis(uri);
  try {
    await work(redis);
  } finally {
    redis.disconnect();
  }
}

async function withPostgres(uri: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: uri });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

/** Sets the most bytes of the streams of rows. A full one refuses rows, and loses none. */
async function limitStreams(uri: string, limit: (bytes: number) => number): Promise<void> {
  const { username, password, host } = new URL(uri);
  const connection = await connect({ servers: host, user: username, pass: decodeURIComponent(password) });
  try {
    const { streams } = await jetstreamManager(connection);
    for await (const { config, state } of streams.list()) {
      if (!config.name.endsWith('_log')) continue;
      await streams.update(config.name, { discard: 'new', max_bytes: limit(state.bytes) });
    }
  } finally {
    await connection.close();
  }
}
