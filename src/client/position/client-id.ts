import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import type { ClientSettings } from '../options.js';

/** The settings that tell one client from another on the same machine. */
export type ClientIdSettings = Pick<ClientSettings, 'clientId' | 'serverUrl' | 'engineUrl' | 'host' | 'port'>;

/**
 * The name of a client, stable over its restarts and unique in the fleet (design D22): SYNC_CLIENT_ID, else the host's name
 * with 8 hex digits of the SHA-256 of where server, engine and client API are.
 */
export function clientIdOf({ clientId, serverUrl, engineUrl, host, port }: ClientIdSettings): string {
  if (clientId !== undefined) return clientId;
  const place = JSON.stringify([serverUrl, engineUrl, `${host}:${port}`]);
  return `${hostname()}-${createHash('sha256').update(place).digest('hex').slice(0, 8)}`;
}
