import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import { LOG_FILE } from '../../src/server/log/sqlite/sqlite-store.js';
import type { BackboneServer } from '../../test/support/backbone-servers.js';

/** Bytes of the log that a server has in its state folder, with the files that SQLite has beside it. */
export function ownLogBytes(stateDir: string): number {
  const files = readdirSync(stateDir).filter((name) => name.startsWith(LOG_FILE));
  return files.reduce((sum, name) => sum + statSync(join(stateDir, name)).size, 0);
}

/** Bytes that a backbone holds: of the database, of the data in memory, of the streams. Files that a server keeps to recover are not in it. */
export async function backboneBytes({ kind, uri }: BackboneServer): Promise<number> {
  switch (kind) {
    case 'Postgres':
      return await postgresBytes(uri);
    case 'Redis':
      return await redisBytes(uri);
    case 'NATS':
      return await natsBytes(uri);
  }
}

async function postgresBytes(uri: string): Promise<number> {
  const client = new pg.Client({ connectionString: uri });
  await client.connect();
  try {
    const { rows } = await client.query<{ bytes: string }>('SELECT pg_database_size(current_database()) AS bytes');
    return Number(rows[0]?.bytes);
  } finally {
    await client.end();
  }
}

async function redisBytes(uri: string): Promise<number> {
  const redis = new Redis(uri);
  try {
    const memory = await redis.info('memory');
    return Number(/used_memory_dataset:(\d+)/.exec(memory)?.[1]);
  } finally {
    redis.disconnect();
  }
}

async function natsBytes(uri: string): Promise<number> {
  const [{ connect }, { jetstreamManager }] = await Promise.all([
    import('@nats-io/transport-node'),
    import('@nats-io/jetstream'),
  ]);
  const { host, username, password } = new URL(uri);
  const connection = await connect({ servers: host, user: username, pass: decodeURIComponent(password) });
  try {
    const { storage, memory } = await (await jetstreamManager(connection)).getAccountInfo();
    return storage + memory;
  } finally {
    await connection.close();
  }
}
