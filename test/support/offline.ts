import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { field, postJson } from './http.js';
import { listening } from './http-server.js';
import type { StartedClient } from './start-client.js';
import { until } from './until.js';

/** Client settings for offline mode with its backup in a folder of the test, saved whenever something has changed. */
export function offlineIn(dir: { path: string }, more: Record<string, string> = {}): Record<string, string> {
  return {
    SYNC_OFFLINE_MODE_ENABLED: 'true',
    SYNC_STORE_BACKUP_PATH: join(dir.path, 'opa.json'),
    SYNC_STORE_BACKUP_INTERVAL: '0.1',
    ...more,
  };
}

/** Settings of a client that is to start without the server. */
export const DISCONNECTED = { SYNC_DEFAULT_SYNC_SERVER_CONNECTIVITY_DISABLED: 'true' } as const;

/** Where {@link offlineIn} has the backup. */
export function backupOf(dir: { path: string }): string {
  return join(dir.path, 'opa.json');
}

/** Switches connectivity and answers the status. */
export async function switchTo(client: { url: string }, action: 'enable' | 'disable'): Promise<unknown> {
  return field((await postJson(`${client.url}/sync-server/connectivity/${action}`, '')).json, 'status');
}

/** Waits until the backup has these texts inside, and none of the others. */
export async function backupHas(dir: { path: string }, texts: readonly string[]): Promise<void> {
  const look = async (): Promise<boolean> => {
    const text = await readFile(backupOf(dir), 'utf8');
    return texts.every((part) => text.includes(part));
  };
  await until(look, { withinMs: 20_000, what: `a backup with ${texts.join(' and ')}` });
}

/** Waits until the client says that it follows the server, or not. */
export async function isConnected(client: StartedClient, connected: boolean): Promise<void> {
  await client.tells(`connected: ${connected}`, (health) => field(health, 'server', 'connected') === connected);
}

/** A server that counts who comes to it, and answers nobody. `await using` stops it. */
export interface DeafServer extends AsyncDisposable {
  readonly url: string;
  connections(): number;
}

export async function deafServer(): Promise<DeafServer> {
  let connections = 0;
  const server = createServer((_, response) => response.writeHead(503).end());
  server.on('connection', () => {
    connections++;
  });
  return {
    ...(await listening(server)),
    connections: () => connections,
  };
}
