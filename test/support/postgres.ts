import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, existsSync, readdirSync } from 'node:fs';
import { chmod, chown, copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import pg from 'pg';
import type { Pair } from './certificates.js';
import { freePort } from './opa.js';
import { makePostgresData, postgresIdentity } from './postgres-data.js';
import { until } from './until.js';

/** A real Postgres server of one test: its own data folder, 127.0.0.1, a free port. `await using` ends and removes it. */
export interface TestPostgres extends AsyncDisposable {
  readonly port: number;
  /** URL of a role with a password, for the database `postgres`. */
  readonly url: string;
  /** The folder of its Unix socket. */
  readonly socketDir: string;
  /** Runs SQL as the owner of the server. */
  run(sql: string): Promise<unknown[]>;
  /** Ends all connections at once, and takes no more, until {@link resume}. */
  stop(): Promise<void>;
  resume(): Promise<void>;
}

/** The role of {@link TestPostgres.url}. */
export const ROLE = { name: 'reader', password: 'hush-hush' };

/** Why there can be no server here; undefined where there can. For the `skip` of a test. */
export const NO_POSTGRES: string | undefined =
  findPrograms() === undefined
    ? 'initdb and postgres are neither on PATH nor below /usr/lib/postgresql: install the package "postgresql"'
    : undefined;

/** Where `initdb` and `postgres` are: Debian keeps them apart by version; the newest wins. */
function findPrograms(): string | undefined {
  const root = '/usr/lib/postgresql';
  const versions = existsSync(root) ? readdirSync(root) : [];
  const debian = versions.sort((a, b) => Number(b) - Number(a)).map((version) => join(root, version, 'bin'));
  const dirs = [...debian, ...(process.env.PATH ?? '').split(delimiter)];
  return dirs.find((dir) => ['initdb', 'postgres'].every((name) => isExecutable(join(dir, name))));
}

/** The folder of `initdb` and `postgres`; throws where there is none. */
export function postgresPrograms(): string {
  const found = findPrograms();
  if (found === undefined) throw new Error(NO_POSTGRES);
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false; // that is the answer
  }
}

/** Starts a server; with a certificate it offers TLS. */
export async function startPostgres(tls?: Pair): Promise<TestPostgres> {
  const programs = findPrograms();
  if (programs === undefined) throw new Error(NO_POSTGRES);
  const identity = postgresIdentity();
  const own = async (path: string): Promise<void> => {
    if (identity.uid !== undefined) await chown(path, identity.uid, identity.gid ?? identity.uid);
  };
  const root = await mkdtemp(join(tmpdir(), 'policysync-pg-'));
  await chmod(root, 0o700);
  await own(root);
  const dir = join(root, 'data');
  const env = { PATH: process.env.PATH ?? '', LC_ALL: 'C', TZ: 'UTC' };
  const output: string[] = [];

  function start(name: string, args: readonly string[]): ReturnType<typeof spawn> {
    const child = spawn(join(programs ?? '', name), args, {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...identity,
    });
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text) => output.push(text));
    return child;
  }

  await makePostgresData(programs, dir);
  // The role has to show its password; the owner, over the socket, need not.
  const hba = 'local all owner trust\nlocal all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n';
  await writeFile(join(dir, 'pg_hba.conf'), hba);
  const port = await freePort();
  const lines = [`port=${port}`, `unix_socket_directories='${root}'`, "listen_addresses='127.0.0.1'", 'fsync=off'];
  if (tls !== undefined) {
    const [cert, key] = [join(dir, 'server.crt'), join(dir, 'server.key')];
    await copyFile(tls.cert, cert);
    await copyFile(tls.key, key);
    await chmod(key, 0o600); // Postgres refuses a key that others may read
    for (const file of [cert, key]) await own(file);
    lines.push('ssl=on');
  }
  await writeFile(join(dir, 'postgresql.auto.conf'), [...lines, ''].join('\n'));

  const owner = { host: root, port, user: 'owner', database: 'postgres' };
  async function run(sql: string): Promise<unknown[]> {
    const client = new pg.Client(owner);
    client.on('error', () => undefined); // the call under way fails of it
    await client.connect();
    try {
      return (await client.query(sql)).rows;
    } finally {
      await client.end();
    }
  }

  let server: ReturnType<typeof spawn> | undefined;
  const killNow = (): void => void server?.kill('SIGKILL');
  process.once('exit', killNow);
  async function resume(): Promise<void> {
    const child = start('postgres', ['-D', dir]);
    server = child;
    await until(
      () => {
        if (child.exitCode !== null) throw new Error(`postgres ended:\n${output.join('')}`);
        return run('select 1');
      },
      { withinMs: 30_000, what: 'Postgres answers' },
    );
  }
  async function stop(): Promise<void> {
    const child = server;
    server = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const closed = once(child, 'close');
    child.kill('SIGINT'); // "fast shutdown": connections are cut, files are closed in order
    await closed;
  }
  const dispose = async (): Promise<void> => {
    await stop();
    process.removeListener('exit', killNow);
    await rm(root, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    await resume();
    await run(`create role ${ROLE.name} login password '${ROLE.password}'`);
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    port,
    url: `postgresql://${ROLE.name}:${ROLE.password}@127.0.0.1:${port}/postgres`,
    socketDir: root,
    run,
    stop,
    resume,
    [Symbol.asyncDispose]: dispose,
  };
}
