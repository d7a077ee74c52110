import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { readdir, stat, symlink } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Fatal } from './run.mjs';

/** All that is on PATH, beside the folder of `npm install --global`; npm and git run a shell. */
const PROGRAMS = ['node', 'npm', 'git', 'sh'];
/** How a machine reaches package registries; the rest of the environment is left behind. */
const NETWORK =
  /^(https?_proxy|no_proxy|npm_config_registry|npm_config_cafile|node_extra_ca_certs|ssl_cert_file|ssl_cert_dir)$/i;
const PATIENCE_MS = 120_000;

const exec = promisify(execFile);

/**
 * A machine that is new: an empty home, an empty npm cache, few programs, of `opa` only the one that is given. Its stopwatch notes the
 * seconds of each step in `steps`. `end` stops what `start` started, and removes everything.
 */
export async function freshHome(opa) {
  const folder = mkdtempSync(join(tmpdir(), 'policysync-first-hour-'));
  const [bin, home, cache, output] = ['bin', 'home', 'npm', 'output'].map((name) => join(folder, name));
  for (const one of [bin, home]) mkdirSync(one);
  for (const name of PROGRAMS) await symlink(onPath(name), join(bin, name));
  if (opa !== undefined) await symlink(opa, join(bin, 'opa'));
  const prefix = join(home, '.local');
  const env = {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => NETWORK.test(name))),
    ...{ HOME: home, LANG: 'C.UTF-8', TMPDIR: tmpdir(), PATH: [bin, join(prefix, 'bin')].join(delimiter) },
    ...{ npm_config_prefix: prefix, npm_config_cache: cache },
  };
  const [steps, programs] = [[], []];

  /** Runs a program to its end; a failure shows what it printed. */
  async function run(program, args, cwd) {
    try {
      await exec(program, args, { cwd, env, maxBuffer: 64 * 1024 * 1024 });
    } catch (error) {
      throw new Fatal(`${program} ${args.join(' ')} failed (${error.code}):\n${error.stdout}${error.stderr}`);
    }
  }

  async function timed(part, text, body) {
    const begin = performance.now();
    await body();
    const seconds = (performance.now() - begin) / 1000;
    console.log(`${part} ${seconds.toFixed(1).padStart(6)} s  ${text.replaceAll('`', '')}`);
    steps.push({ part, text, seconds });
  }

  /** Starts a program that stays, and waits until `url` answers with 200. */
  async function start(program, args, { cwd, url }) {
    const file = openSync(output, 'a');
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', file, file] });
    programs.push(child);
    await until(async () => {
      if (child.exitCode !== null) throw new Fatal(`${program} ${args[0]} ended:\n${readFileSync(output, 'utf8')}`);
      return (await fetch(url)).ok;
    }, `${program} ${args[0]} answers at ${url}`);
  }

  async function end() {
    for (const child of programs.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const closed = once(child, 'close');
      child.kill('SIGTERM');
      await closed;
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }

  return {
    ...{ home, steps, run, timed, start, end },
    step: (part, text, [program, ...args], cwd) => timed(part, text, () => run(program, args, cwd)),
    cacheBytes: () => bytesOf(cache),
    emptyCache: () => rmSync(cache, { recursive: true, force: true }),
  };
}

/** Waits for something true; a request that is refused is not true yet. */
export async function until(condition, what) {
  for (const last = performance.now() + PATIENCE_MS; ; await sleep(50)) {
    try {
      if (await condition()) return;
    } catch (error) {
      if (error instanceof Fatal) throw error; // anything else: the program does not listen yet
    }
    if (performance.now() > last) throw new Fatal(`waited ${PATIENCE_MS / 1000} s in vain: ${what}`);
  }
}

/** A port of this machine that nothing listens on now. */
export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

function onPath(name) {
  for (const dir of (process.env.PATH ?? '').split(delimiter)) {
    try {
      accessSync(join(dir, name), constants.X_OK);
      return join(dir, name);
    } catch {
      // not in this folder
    }
  }
  throw new Fatal(`${name} is not on PATH: install it`);
}

async function bytesOf(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map(async (entry) => (await stat(join(entry.parentPath, entry.name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
