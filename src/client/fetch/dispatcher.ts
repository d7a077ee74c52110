import { Agent, type Dispatcher, EnvHttpProxyAgent, Pool } from 'undici';
import { errorText, SyncError } from '../../lib/errors.js';

/**
 * The connections of a fetcher. Goes through a proxy where `env` names one: HTTP_PROXY, HTTPS_PROXY, NO_PROXY, also in
 * lower case, which wins. `silenceTimeoutMs` is the longest wait for a connection. Throws `config_invalid` for an
 * address of a proxy that is none.
 */
export function createDispatcher(
  silenceTimeoutMs: number,
  env: Readonly<Record<string, string | undefined>>,
): Dispatcher {
  const times = { headersTimeout: silenceTimeoutMs, bodyTimeout: silenceTimeoutMs };
  const connect = { timeout: silenceTimeoutMs };
  const httpProxy = env.http_proxy ?? env.HTTP_PROXY ?? '';
  const httpsProxy = env.https_proxy ?? env.HTTPS_PROXY ?? '';
  if (httpProxy === '' && httpsProxy === '') return new Agent({ ...times, connect });
  try {
    return new EnvHttpProxyAgent({
      ...times,
      connect,
      // All three are given, also when empty: what is left out undici takes from the environment of the process.
      httpProxy,
      httpsProxy,
      noProxy: env.no_proxy ?? env.NO_PROXY ?? '',
      proxyTls: connect,
      // Plain http goes to the proxy as such, as with curl: many proxies tunnel to port 443 only.
      proxyTunnel: false,
      clientFactory: (origin, options) => new Pool(origin, { ...options, ...times }),
    });
  } catch (cause) {
    throw new SyncError('config_invalid', `HTTP_PROXY or HTTPS_PROXY is not a proxy address: ${errorText(cause)}`, {
      cause,
    });
  }
}
