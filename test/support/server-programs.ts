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
const ACTIONLINT_VERSION = '1.7.12';
/** Debian packages of Redis, with the libraries that a small system lacks. */
const REDIS_PACKAGES = ['redis-server', 'redis-tools', 'liblzf1', 'libjemalloc2'];
const LIMIT_MS = 10 * 60_000;
/** A maker that died leaves its lock; nobody takes longer than {@link LIMIT_MS}. */
const STALE_MS = LIMIT_MS + 60_000;

/** SYNC_TEST_PROGRAMS=all, as continuous integration has it: every program is made, and it is an error that one cannot be had. */
function areAllWanted(): boolean {
  return process.env.SYNC_TEST_PROGRAMS === 'all';
}

/** What is found of a program that many tests need; with SYNC_TEST_PROGRAMS=all it has to be there. */
export function required(found: ServerProgram): ServerProgram {
  if ('missing' in found && areAllWanted()) throw new Error(found.missing);
  return found;
}

/**
 * A program that few tests need, those of deploy/ and of workflows: from PATH, or as it was made before into `cache`; it is made
 * with SYNC_TEST_PROGRAMS=all alone, and then has to be there.
 */
export async function rareProgram(
  name: string,
  cache: string,
  make: () => Promise<ServerProgram>,
): Promise<ServerProgram> {
  const found = onPath(name);
  if (found !== undefined) return { path: found, env: {} };
  if (!areAllWanted() && !existsSync(join(programCache(), cache))) {
    return { missing: `${name} is not on PATH: install it, or have it made by SYNC_TEST_PROGRAMS=all npm test` };
  }
  return required(await make());
}

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
  const wanted = { cache: 'redis-debian', packages: REDIS_PACKAGES, at: 'usr/bin' };
  return required(await debianProgram('redis-server', wanted));
}

/** `nginx`: from PATH, or from its Debian package that is unpacked into the cache folder. */
export async function nginxProgram(): Promise<ServerProgram> {
  const found = onPath('nginx');
  if (found !== undefined) return { path: found, env: {} };
  const packages = ['nginx', 'libpcre2-8-0', 'libssl3', 'zlib1g', 'libcrypt1'];
  return required(await debianProgram('nginx', { cache: 'nginx-debian', packages, at: 'usr/sbin' }));
}

/** `promtool`, which checks alert rules: from PATH, or from the Debian package of Prometheus. */
export async function promtoolProgram(): Promise<ServerProgram> {
  const wanted = { cache: 'prometheus-debian', packages: ['prometheus'], at: 'usr/bin' };
  return await rareProgram('promtool', wanted.cache, () => debianProgram('promtool', wanted));
}

/** Debian packages: those of the list; or one, with all that it needs and this machine lacks, and `more`. */
export type DebianPackages = readonly string[] | { readonly whole: string; readonly more: readonly string[] };

/** A program from Debian packages that are unpacked into the cache folder, without root. `packages` include the libraries it may lack. */
export async function debianProgram(
  name: string,
  { cache, packages, at }: { cache: string; packages: DebianPackages; at: string },
): Promise<ServerProgram> {
  if (onPath('apt-get') === undefined || onPath('dpkg') === undefined) {
    return { missing: `${name} is not on PATH, and there is no apt-get to get it with: install it` };
  }
  return await cached(cache, async (dir) => {
    const download = async (): Promise<unknown> =>
      run('apt-get', ['download', ...(await namesOf(packages))], { cwd: dir, timeout: LIMIT_MS });
    try {
      await download();
    } catch {
      await run('apt-get', ['update'], { timeout: LIMIT_MS }); // the lists of packages are missing or old
      await download();
    }
    for (const file of await readdir(dir)) {
      if (!file.endsWith('.deb')) continue;
      await run('dpkg', ['-x', file, '.'], { cwd: dir, timeout: LIMIT_MS });
      await rm(join(dir, file));
    }
  }).then(
    (dir) => {
      const folders = [join(dir, 'usr', 'lib'), join(dir, 'lib')].filter((lib) => existsSync(lib));
      const libs = folders.flatMap((lib) => readdirSync(lib).map((one) => join(lib, one)));
      const paths = libs.filter((one) => one.endsWith('-linux-gnu'));
      return { path: join(dir, at, name), env: paths.length === 0 ? {} : { LD_LIBRARY_PATH: paths.join(':') } };
    },
    (error: unknown) => ({
      missing: `${name} is not on PATH, and its packages cannot be had: ${lastLine(error)}`,
    }),
  );
}

/** The names of packages; a simulated installation says what this machine lacks. */
async function namesOf(packages: DebianPackages): Promise<readonly string[]> {
  if (!('whole' in packages)) return packages;
  const asked = ['--simulate', '--no-install-recommends', 'install', packages.whole];
  const { stdout } = await run('apt-get', asked, { timeout: LIMIT_MS, env: { ...process.env, LC_ALL: 'C' } });
  const lacking = [...stdout.matchAll(/^Inst (\S+)/gm)].flatMap(([, name]) => name ?? []);
  return [...new Set([packages.whole, ...lacking, ...packages.more])];
}

/** `nats-server`: built by Go into the cache folder; one on PATH may be too old. */
export async function natsProgram(): Promise<ServerProgram> {
  return required(await goProgram('nats-server', 'github.com/nats-io/nats-server/v2', NATS_VERSION));
}

/** `actionlint`, which checks GitHub workflows: from PATH, or built by Go into the cache folder. */
export async function actionlintProgram(): Promise<ServerProgram> {
  return await rareProgram('actionlint', `actionlint-${ACTIONLINT_VERSION}`, () =>
    goProgram('actionlint', 'github.com/rhysd/actionlint/cmd/actionlint', ACTIONLINT_VERSION),
  );
}

/** A program that Go builds from a package of the module proxy into the cache folder. `file`: what Go calls it, if not by its name. */
export async function goProgram(
  name: string,
  packagePath: string,
  version: string,
  file = name,
): Promise<ServerProgram> {
  const go = onPath('go');
  if (go === undefined) return { missing: `there is no Go to build ${name} ${version} with: install Go` };
  return await cached(`${name}-${version}`, async (dir) => {
    const env = { ...process.env, GOBIN: dir, GOOS: undefined, GOARCH: undefined, GOWORK: 'off' };
    await run(go, ['install', `${packagePath}@v${version}`], { cwd: dir, env, timeout: LIMIT_MS });
  }).then(
    (dir) => ({ path: join(dir, file), env: {} }),
    (error: unknown) => ({ missing: `${name} ${version} cannot be built: ${lastLine(error)}` }),
  );
}

/** The folder of test programs in the user's cache. */
export function programCache(): string {
  const { XDG_CACHE_HOME: xdg = '' } = process.env;
  return join(isAbsolute(xdg) ? xdg : join(homedir(), '.cache'), 'policysync', 'test-servers');
}

/**
 * A folder of the cache, made once by whoever comes first, also of several processes; the others wait. It gets its name when it is
 * whole.
 */
export async function cached(name: string, make: (dir: string) => Promise<void>): Promise<string> {
  const root = programCache();
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

/** The last line of an error's message: what a failed command printed last. */
export function lastLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error)
    .trim()
    .split('\n')
    .slice(-1)
    .join('');
}
