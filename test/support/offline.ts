import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import type { DataSource } from './data-source.js';
import type { GitRepo } from './git-repo.js';
import { field, postJson, request } from './http.js';
import { listening } from './http-server.js';
import { publish, type StartedClient } from './start-client.js';
import type { StartedServer } from './start-server.js';
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

/** A policy that asks the data at `/users`. */
export const APP = 'package app\n\nimport rego.v1\n\ndefault allow := false\n\nallow if data.users[input.user]\n';

/** Where the client of {@link keepsAndCatchesUp} gets from what it has. */
export interface OfflineWorld {
  readonly repo: GitRepo;
  readonly source: DataSource;
  readonly server: StartedServer;
}

/**
 * The story of a connected client with {@link APP} and a source at `/users` that has ann: disconnected it keeps what it has, and a
 * backup is there; connected again it has all that it missed. `users` is what it holds in the end, of a source that has joe.
 */
export async function keepsAndCatchesUp(
  client: StartedClient,
  dir: { path: string },
  { repo, source, server }: OfflineWorld,
  users: Readonly<Record<string, boolean>> = { joe: true },
): Promise<void> {
  await client.healthy();
  await client.answers('/app/allow', { user: 'ann' }, true);
  assert.equal(await switchTo(client, 'enable'), 'already_enabled');

  await publish(server.url, { dst_path: '/live', data: { n: 1 } });
  await client.holds('/live', { n: 1 });
  assert.equal(await switchTo(client, 'disable'), 'disabled');
  // The answer comes when the backup is there, and nothing of the server is under way.
  assert.match(await readFile(backupOf(dir), 'utf8'), /\{"n":1\}/);
  assert.equal(await switchTo(client, 'disable'), 'already_disabled');
  const health = await client.health();
  assert.equal(health.status, 200);
  assert.equal(field(health.json, 'online'), false);
  assert.equal((await client.ready()).status, 200);

  const commit = await repo.commit({
    'app/app.rego': APP.replace(':= false', ':= true'),
    'x/data.json': '{"x":1}',
  });
  await until(async () => (await request(`${server.url}/policy`)).text.includes(commit), {
    withinMs: 20_000,
    what: 'the server has the commit',
  });
  await publish(server.url, { dst_path: '/live', data: { n: 2 } }, { dst_path: '/more', data: 1 });
  source.serve('/users', { joe: true });
  const asked = source.count();
  assert.deepEqual(await client.data('/live'), { n: 1 });
  assert.equal(await client.query('/app/allow', { user: 'ann' }), true);
  assert.equal(await client.query('/app/allow', { user: 'joe' }), false);
  assert.equal(source.count(), asked);

  assert.equal(await switchTo(client, 'enable'), 'enabled');
  await client.holds('/live', { n: 2 });
  await client.holds('/more', 1);
  await client.holds('/users', users);
  await client.answers('/app/allow', { user: 'zoe' }, true);
  await client.holds('/x', { x: 1 });
  await client.healthy();
  assert.equal(field((await client.health()).json, 'online'), true);
  assert.equal(await switchTo(client, 'enable'), 'already_enabled');
  // And what comes from now on arrives as before.
  await publish(server.url, { dst_path: '/after', data: 1 });
  await client.holds('/after', 1);
}
