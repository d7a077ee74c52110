import { fetch, type RequestInit } from 'undici';
import { openConnections } from '../client/connections.js';
import { CLIENT_SETTINGS } from '../client/options.js';
import { createLogger } from '../lib/log.js';
import { loadSettings } from '../lib/options.js';

/** A request of a command to a sync server; `timeoutMs` is the longest wait for the whole answer. */
export type ServerRequest = Pick<RequestInit, 'method' | 'headers' | 'body' | 'redirect'> & { timeoutMs: number };

/**
 * Asks a server the way the client itself would: with the authority and the client certificate of the settings
 * (SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE, SYNC_CLIENT_TLS_CERT_FILE and their companions) and the proxies of the
 * environment. Rejects with `config_invalid` for these, else as `fetch` does.
 */
export async function askServer(
  url: string,
  { timeoutMs, ...init }: ServerRequest,
  env: NodeJS.ProcessEnv,
): Promise<{ status: number; text: string }> {
  const { selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile } = CLIENT_SETTINGS;
  const { values } = loadSettings({ selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile }, { env });
  const log = createLogger('policysync', { level: 'warn', format: 'pretty' });
  const connections = await openConnections({ ...values, serverUrl: url, serverWsUrl: undefined }, { log, env });
  const dispatcher = connections.dispatcher(timeoutMs);
  try {
    const response = await fetch(url, { ...init, dispatcher, signal: AbortSignal.timeout(timeoutMs) });
    return { status: response.status, text: await response.text() };
  } finally {
    connections.close();
    await dispatcher.destroy();
  }
}
