import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from '../../src/lib/observe/log.js';
import { field, request } from './http.js';
import { createServer, loadSettings, SERVER_SETTINGS, silentLogger } from './library.js';
import { until } from './until.js';

/** A real server in this process, on a free port. `await using` stops it and removes its folder. */
export interface StartedServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`, no slash at the end. */
  readonly url: string;
  readonly port: number;
  readonly stateDir: string;
  /** Stops it and keeps the state folder; another server may be started on it. */
  stop(): Promise<void>;
}

/**
 * What most tests do without: a commit takes a process that compiles it, and some commits are there to show what clients do with them.
 * The programs of the demo, the guides and fault runs have it; `SYNC_POLICY_GATE: 'on'` turns it on here.
 */
export const NO_GATE = { SYNC_POLICY_GATE: 'off' };

/**
 * Starts a server. `env` has settings as SYNC_... names. `stateDir` takes an existing folder, which then stays; otherwise
 * the server has its own temporary one. `programEnv`: the environment as it sees it. One that follows a repository on this machine
 * has looked at it when this returns, unless `waitForPolicy` is false: a client that comes earlier is told to come back in 2 s.
 */
export async function startServer(
  env: Record<string, string> = {},
  more: { stateDir?: string; log?: Logger; programEnv?: NodeJS.ProcessEnv; waitForPolicy?: boolean } = {},
): Promise<StartedServer> {
  const stateDir = more.stateDir ?? (await mkdtemp(join(tmpdir(), 'sync-server-')));
  const { values } = loadSettings(SERVER_SETTINGS, { env: { SYNC_SERVER_BIND_PORT: '0', ...NO_GATE, ...env } });
  const server = createServer(
    { ...values, stateDir },
    { log: more.log ?? silentLogger(), env: more.programEnv ?? process.env },
  );
  const removeOwnFolder = async (): Promise<void> => {
    if (more.stateDir === undefined) await rm(stateDir, { recursive: true, force: true });
  };
  try {
    const { url, port } = await server.start();
    const isLocal = env.SYNC_POLICY_REPO_URL?.startsWith('file:') && url.startsWith('http:');
    if (isLocal && more.waitForPolicy !== false) await lookedAtPolicy(url, server.ended());
    return {
      url,
      port,
      stateDir,
      stop: () => server.stop(),
      [Symbol.asyncDispose]: async () => {
        await server.stop();
        await removeOwnFolder();
      },
    };
  } catch (error) {
    await server.stop();
    await removeOwnFolder();
    throw error;
  }
}

/** Waits until a server has a commit, or an error in its place, or is over. */
async function lookedAtPolicy(url: string, ended: Promise<void>): Promise<void> {
  let isOver = false;
  const over = (): void => {
    isOver = true; // why is the matter of the test
  };
  ended.then(over, over);
  await until(
    async () => {
      if (isOver) return true;
      const { json } = await request(`${url}/healthcheck`);
      return field(json, 'policy', 'state') !== 'starting' || field(json, 'policy', 'error') !== null;
    },
    { withinMs: 20_000, what: 'the server has looked at its policy source' },
  );
}
