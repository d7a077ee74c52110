import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readdirSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';
import { until } from './until.js';

const run = promisify(execFile);

/** A server program for tests, or why there is none here. */
export type ServerProgram = { readonly path: string; readonly env: NodeJS.ProcessEnv } | { readonly missing: string };

/** Version of nats-server that the tests run against. */
const NATS_VERSION = '2.14.9';
/** Debian packages of Redis, with the libraries that a small system lacks. */
const REDIS_PACKAGES = ['redis-server', 'redis-tools', 'liblzf1', 'libjemalloc2'];
const LIMIT_MS = 10 * 60_000;
/** A maker that died leaves its lock; nobody takes longer than {@link LIMIT_MS}. */
const STALE_MS = LIMIT_MS + 60_000;

/** A program on PATH. */
export function onPath(name: string): string | undefined {
  const dirs = (process.env.PATH ?? '').split(delimiter);
  return dirs.map((dir) => join(dir, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false; // that is the answer
  }
}

/** `redis-server`: from PATH, or from Debian packages that are unpacked into the cache folder. */
export async function redisProgram(): Promise<ServerProgram> {
  const found = onPath('redis-server');
  if (found !== undefined) return { path: found, env: {} };
  if (onPath('apt-get') === undefined || onPath('dpkg') === undefined) {
    return { missing: 'redis-server is not on PATH, and there is no apt-get to get it with: install Redis' };
  }
  return await cached('redis-debian', async (dir) => {
    const download = (): Promise<unknown> =>
      run('apt-get', ['download', ...REDIS_PACKAGES], { cwd: dir, timeout: LIMIT_MS });
    try {
      await download();
    } catch {
      await run('apt-get', ['update'], { timeout: LIMIT_MS }); // the lists of packages are missing or old
      await download();
    }
    for (const file of await readdir(dir)) {
      if (file.endsWith('.deb')) await run('dpkg', ['-x', file, '.'], { cwd: dir, timeout: LIMIT_MS });
    }
  }).then(
    (dir) => {
      const lib = join(dir, 'usr', 'lib');
      const libs = readdirSync(lib).filter((name) => name.endsWith('-linux-gnu'));
      return {
        path: join(dir, 'usr', 'bin', 'redis-server'),
        env: { LD_LIBRARY_PATH: libs.map((name) => join(lib, name)).join(':') },
      };
    },
    (error: unknown) => ({
      missing: `redis-server is not on PATH, and its packages cannot be had: ${lastLine(error)}`,
    }),
  );
}

/** `nats-server`: built by Go into the cache folder; one on PATH may be too old. */
export async function natsProgram(): Promise<ServerProgram> {
  const go = onPath('go');
  if (go === undefined) return { missing: `there is no Go to build nats-server ${NATS_VERSION} with: install Go` };
  return await cached(`nats-server-${NATS_VERSION}`, async (dir) => {
    const env = { ...process.env, GOBIN: dir, GOOS: undefined, GOARCH: undefined, GOWORK: 'off' };
    await run(go, ['install', `github.com/nats-io/nats-server/v2@v${NATS_VERSION}`], {
      cwd: dir,
      env,
      timeout: LIMIT_MS,
    });
  }).then(
    (dir) => ({ path: join(dir, 'nats-server'), env: {} }),
    (error: unknown) => ({ missing: `nats-server ${NATS_VERSION} cannot be built: ${lastLine(error)}` }),
  );
}

/**
 * A folder of the cache, made once by whoever comes first, also of several processes; the others wait. It gets its name when it is
 * whole.
 */
async function cached(name: string, make: (dir: string) => Promise<void>): Promise<string> {
  const { XDG_CACHE_HOME: xdg = '' } = process.env;
  const root = join(isAbsolute(xdg) ? xdg : join(homedir(), '.cache'), 'policysync', 'test-servers');
  const target = join(root, name);
  const lock = `${target}.lock`;
  await mkdir(root, { recursive: true });
  const mine = await until(
    async () => {
      if (existsSync(target)) return 'there';
      try {
        await mkdir(lock);
        return 'make';
      } catch {
        // Somebody else makes it, unless the lock was left by one that died.
        const found = await stat(lock).catch(() => undefined);
        if (found !== undefined && Date.now() - found.mtimeMs > STALE_MS)
          await rm(lock, { recursive: true, force: true });
        return undefined;
      }
    },
    { withinMs: STALE_MS + LIMIT_MS, what: `${name} is made by another process` },
  );
  if (mine === 'there') return target;
  const temp = await mkdtemp(join(root, 'tmp-'));
  try {
    if (existsSync(target)) return target;
    await make(temp);
    await rename(temp, target);
    return target;
  } finally {
    await rm(temp, { recursive: true, force: true });
    await rm(lock, { recursive: true, force: true });
  }
}

function lastLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error)
    .trim()
    .split('\n')
    .slice(-1)
    .join('');
}
