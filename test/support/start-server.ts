import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from '../../src/lib/log.js';
import { createServer, loadSettings, SERVER_SETTINGS, silentLogger } from './library.js';

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
 * Starts a server. `env` has settings as SYNC_... names. `stateDir` takes an existing folder, which then stays; otherwise
 * the server has its own temporary one. `programEnv`: the environment as it sees it.
 */
export async function startServer(
  env: Record<string, string> = {},
  more: { stateDir?: string; log?: Logger; programEnv?: NodeJS.ProcessEnv } = {},
): Promise<StartedServer> {
  const stateDir = more.stateDir ?? (await mkdtemp(join(tmpdir(), 'sync-server-')));
  const { values } = loadSettings(SERVER_SETTINGS, { env: { SYNC_SERVER_BIND_PORT: '0', ...env } });
  const server = createServer(
    { ...values, stateDir },
    { log: more.log ?? silentLogger(), env: more.programEnv ?? process.env },
  );
  const removeOwnFolder = async (): Promise<void> => {
    if (more.stateDir === undefined) await rm(stateDir, { recursive: true, force: true });
  };
  try {
    const { url, port } = await server.start();
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
    await removeOwnFolder();
    throw error;
  }
}
