import { execFile } from 'node:child_process';
import { chown, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePort } from './opa.js';
import { NO_POSTGRES, postgresPrograms } from './postgres.js';
import { makePostgresData, OWNER, postgresIdentity } from './postgres-data.js';
import { type ServerProcess, serverProcess } from './server-process.js';
import { natsProgram, redisProgram, type ServerProgram } from './server-programs.js';
import { tempDir } from './temp-dir.js';

/** Kinds of backbones. */
export type BackboneKind = 'Postgres' | 'Redis' | 'NATS';

/** A real server of one test file: own folder, 127.0.0.1, a free port. `await using` ends and removes it. */
export interface BackboneServer extends ServerProcess, AsyncDisposable {
  readonly kind: BackboneKind;
  /** For SYNC_BROADCAST_URI. */
  readonly uri: string;
  readonly port: number;
  /** Ends it, forgets all data, starts it again. */
  empty(): Promise<void>;
  /** Copies all data, amid a restart; what it answers goes back to that copy, amid another one. */
  backup(): Promise<() => Promise<void>>;
}

/** What a server can be started with: more lines of its configuration. */
export interface BackboneConfig {
  readonly lines?: readonly string[];
  /** Rows may be lost at a power failure: they are not flushed to the disk one by one. */
  readonly isHasty?: boolean;
}

/** A kind of server as far as this machine can have it. */
export interface BackboneOffer {
  readonly kind: BackboneKind;
  /** Why there is none; for the `skip` of a suite. */
  readonly missing: string | undefined;
  start(config?: BackboneConfig): Promise<BackboneServer>;
}

/** The password of every server, to show that it is used and never shown. */
export const BACKBONE_PASSWORD = OWNER.password;

const run = promisify(execFile);

/** What this machine offers; gets what is missing into the cache folder, which may take minutes the first time. */
export async function backboneOffer(kind: BackboneKind): Promise<BackboneOffer> {
  if (kind === 'Postgres') return { kind, missing: NO_POSTGRES, start: startPostgresBackbone };
  const program = kind === 'Redis' ? await redisProgram() : await natsProgram();
  if ('missing' in program) {
    return { kind, missing: program.missing, start: () => Promise.reject(new Error(program.missing)) };
  }
  const start = kind === 'Redis' ? startRedis : startNats;
  return { kind, missing: undefined, start: (config) => start(program, config) };
}

async function startPostgresBackbone({ lines = [], isHasty = false }: BackboneConfig = {}): Promise<BackboneServer> {
  const programs = postgresPrograms();
  const dir = await tempDir();
  const identity = postgresIdentity();
  if (identity.uid !== undefined) await chown(dir.path, identity.uid, identity.gid ?? identity.uid);
  const data = join(dir.path, 'data');
  const port = await freePort();
  async function make(): Promise<void> {
    await makePostgresData(programs, data);
    const hasty = isHasty ? ['fsync=off', 'full_page_writes=off'] : [];
    const place = [`port=${port}`, `unix_socket_directories='${dir.path}'`, "listen_addresses='127.0.0.1'"];
    const own = [...place, ...hasty, ...lines, ''];
    await writeFile(join(data, 'postgresql.auto.conf'), own.join('\n'));
  }
  const uri = `postgres://${OWNER.name}:${encodeURIComponent(BACKBONE_PASSWORD)}@127.0.0.1:${port}/postgres`;
  const server = serverProcess({
    path: join(programs, 'postgres'),
    args: ['-D', data],
    cwd: dir.path,
    env: {},
    ...identity,
    ready: async () => {
      const client = new pg.Client({ connectionString: uri, connectionTimeoutMillis: 2000 });
      client.on('error', () => undefined); // the call under way fails of it
      try {
        await client.connect();
        await client.query('select 1');
      } finally {
        await client.end();
      }
    },
  });
  return await finished('Postgres', uri, port, server, dir, data, make);
}

async function startRedis(
  program: Extract<ServerProgram, { path: string }>,
  { lines = [], isHasty = false }: BackboneConfig = {},
): Promise<BackboneServer> {
  const dir = await tempDir();
  const data = join(dir.path, 'data');
  const port = await freePort();
  const file = join(dir.path, 'redis.conf');
  const make = async (): Promise<void> => {
    const own = [`port ${port}`, 'bind 127.0.0.1', `dir ${data}`, 'save ""', 'appendonly yes'];
    const flush = `appendfsync ${isHasty ? 'no' : 'always'}`;
    const user = `user app on >${BACKBONE_PASSWORD} ~* &* +@all`;
    await mkdir(data, { recursive: true });
    // A server that reads its file back checks the rights of "default"; a second line for one user is refused.
    const others = lines.some((line) => line.startsWith('user default')) ? [] : ['user default off ~* &* +@all'];
    await writeFile(file, [...own, flush, 'maxmemory-policy noeviction', user, ...others, ...lines, ''].join('\n'));
  };
  const server = serverProcess({
    path: program.path,
    args: [file],
    cwd: dir.path,
    env: program.env,
    // Until the data is read it answers -LOADING.
    ready: () => say(port, 'PING\r\n', /^-NOAUTH/),
  });
  const uri = `redis://app:${encodeURIComponent(BACKBONE_PASSWORD)}@127.0.0.1:${port}/3`;
  return await finished('Redis', uri, port, server, dir, data, make);
}

async function startNats(
  program: Extract<ServerProgram, { path: string }>,
  { lines = [], isHasty = false }: BackboneConfig = {},
): Promise<BackboneServer> {
  const dir = await tempDir();
  const data = join(dir.path, 'data');
  const port = await freePort();
  const file = join(dir.path, 'nats.conf');
  const make = async (): Promise<void> => {
    const own = [
      `listen: "127.0.0.1:${port}"`,
      `jetstream { store_dir: "${data}", sync_interval: ${isHasty ? '"10m"' : 'always'} }`,
      `authorization { user: app, password: "${BACKBONE_PASSWORD}" }`,
    ];
    await writeFile(file, [...own, ...lines, ''].join('\n'));
  };
  const server = serverProcess({
    path: program.path,
    args: ['-c', file],
    cwd: dir.path,
    env: program.env,
    ready: () => say(port, '', /^INFO .*"jetstream":true/),
  });
  const uri = `nats://app:${encodeURIComponent(BACKBONE_PASSWORD)}@127.0.0.1:${port}`;
  return await finished('NATS', uri, port, server, dir, data, make);
}

async function finished(
  kind: BackboneKind,
  uri: string,
  port: number,
  server: ServerProcess,
  dir: AsyncDisposable,
  data: string,
  make: () => Promise<void>,
): Promise<BackboneServer> {
  const dispose = async (): Promise<void> => {
    await server.kill();
    await dir[Symbol.asyncDispose]();
  };
  try {
    await make();
    await server.start();
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    ...server,
    kind,
    uri,
    port,
    empty: async () => {
      await server.kill();
      await rm(data, { recursive: true });
      await make();
      await server.start();
    },
    backup: async () => {
      const copy = `${data}-copy`;
      await server.kill();
      await run('cp', ['-a', data, copy]); // with owners and rights, which Postgres insists on
      await server.start();
      return async () => {
        await server.kill();
        await rm(data, { recursive: true });
        await rename(copy, data);
        await server.start();
      };
    },
    [Symbol.asyncDispose]: dispose,
  };
}

/** Connects, says something, and waits for a first line of that form; anything else rejects. */
async function say(port: number, text: string, wanted: RegExp): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', timeout: 2000 });
  try {
    await new Promise<void>((resolve, reject) => {
      socket.on('error', reject);
      socket.on('timeout', () => reject(new Error('no answer')));
      socket.on('close', () => reject(new Error('closed')));
      socket.once('data', (data) => {
        if (wanted.test(data.toString())) resolve();
        else reject(new Error(data.toString()));
      });
      if (text !== '') socket.write(text);
    });
  } finally {
    socket.destroy();
  }
}
