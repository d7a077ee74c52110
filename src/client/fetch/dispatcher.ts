import { Agent, type Dispatcher, Pool, ProxyAgent } from 'undici';
import { httpConnector } from '../../lib/connect.js';
import { readProxies } from '../../lib/proxy.js';
import type { OutgoingTls } from '../../lib/tls.js';

/** More of {@link createDispatcher}. */
export interface DispatcherOptions {
  /** Longest wait for a connection. Default: the longest silence. */
  readonly connectTimeoutMs?: number;
  /** Authorities that are trusted, and our own certificate. Default: the well-known authorities. */
  readonly tls?: OutgoingTls | undefined;
}

/**
 * HTTP connections to wherever. They go through a proxy where `env` names one (`lib/proxy.ts` has the rules).
 * `silenceTimeoutMs` is the longest wait for an answer, and between two parts of it. Throws `config_invalid` for an address
 * of a proxy that is none.
 */
export function createDispatcher(
  silenceTimeoutMs: number,
  env: Readonly<Record<string, string | undefined>>,
  { connectTimeoutMs = silenceTimeoutMs, tls }: DispatcherOptions = {},
): Dispatcher {
  const times = { headersTimeout: silenceTimeoutMs, bodyTimeout: silenceTimeoutMs };
  const options = { timeoutMs: connectTimeoutMs, tls };
  const proxies = readProxies(env);
  const direct = httpConnector(options);

  return new Agent({
    factory: (origin) => {
      const url = new URL(origin);
      const proxy = proxies.for(url);
      if (proxy === undefined) return new Pool(origin, { ...times, connect: direct });
      if (url.protocol === 'https:' || proxy.url.protocol === 'https:') {
        return new Pool(origin, { ...times, connect: httpConnector(options, proxy) });
      }
      // Plain http goes to the proxy as such, as with curl: many proxies tunnel to port 443 only.
      return new ProxyAgent({
        ...times,
        uri: proxy.url.href,
        ...(proxy.authorization === undefined ? {} : { token: proxy.authorization.reveal() }),
        proxyTls: { timeout: connectTimeoutMs },
        proxyTunnel: false,
        factory: (at, more) => new Pool(at, { ...more, ...times }),
        clientFactory: (at, more) => new Pool(at, { ...more, ...times }),
      });
    },
  });
}
