import { execFile } from 'node:child_process';
import { chown, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cached } from './server-programs.js';
import { tempDir } from './temp-dir.js';

const run = promisify(execFile);
/** Postgres refuses to run as root: `nobody` of Debian and most others. */
const NOBODY = 65_534;

/** What the owner of a new data folder shows over TCP. */
export const OWNER = { name: 'owner', password: 'hush-p@ss' };

/** Whom Postgres and its data folder belong to; nothing where that is who runs the tests. */
export function postgresIdentity(): { uid?: number; gid?: number } {
  return process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
}

/**
 * Makes a new data folder as `initdb` does, for {@link OWNER}. `initdb` takes a second of processor time, so it runs once for each
 * version of Postgres, and what it made is copied out of the cache.
 */
export async function makePostgresData(programs: string, target: string): Promise<void> {
  const { stdout } = await run(join(programs, 'postgres'), ['--version']);
  const version = stdout.match(/\d+(?:\.\d+)*/)?.[0] ?? 'unknown';
  const owner = postgresIdentity().uid ?? process.getuid?.() ?? 0;
  const made = await cached(`postgres-data-${version}-${owner}`, (dir) => initialize(programs, join(dir, 'data')));
  await run('cp', ['-a', join(made, 'data'), target]); // with owners and rights, which Postgres insists on
}

async function initialize(programs: string, target: string): Promise<void> {
  const identity = postgresIdentity();
  await using dir = await tempDir(); // who owns the data may not get into the cache
  if (identity.uid !== undefined) await chown(dir.path, NOBODY, NOBODY);
  const data = join(dir.path, 'data');
  const secret = join(dir.path, 'password');
  await writeFile(secret, OWNER.password);
  const args = ['-D', data, '-U', OWNER.name, '--auth=scram-sha-256', `--pwfile=${secret}`, '--encoding=UTF8'];
  // Small segments of the log: less to copy.
  const more = ['--locale=C', '--no-sync', '--wal-segsize=1'];
  await run(join(programs, 'initdb'), [...args, ...more], {
    cwd: dir.path,
    env: { LC_ALL: 'C', TZ: 'UTC' },
    ...identity,
  });
  await run('cp', ['-a', data, target]);
}
