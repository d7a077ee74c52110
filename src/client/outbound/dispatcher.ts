import { isIP } from 'node:net';
import { Agent, type buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici';
import { type ConnectOptions, httpConnector } from '../../lib/connect.js';
import { endpointOf, readProxies } from '../../lib/proxy.js';
import type { OutgoingTls } from '../../lib/tls.js';
import type { OutboundGate } from './gate.js';

/** Options of {@link createDispatcher}. */
export interface DispatcherOptions {
  /** Longest wait for a connection. Default: the longest silence. */
  readonly connectTimeoutMs?: number;
  /** Authorities that are trusted, and our own certificate. Default: the well-known authorities. */
  readonly tls?: OutgoingTls | undefined;
  /** Decides where connections may go, for addresses that a peer names. Default: anywhere. */
  readonly gate?: OutboundGate | undefined;
}

/**
 * HTTP connections, through a proxy if `env` names one (`lib/proxy.ts` has the rules). `silenceTimeoutMs` is the longest wait
 * for a response, and between two parts of it. Throws `config_invalid` for an invalid address of a proxy.
 */
export function createDispatcher(
  silenceTimeoutMs: number,
  env: Readonly<Record<string, string | undefined>>,
  { connectTimeoutMs = silenceTimeoutMs, tls, gate }: DispatcherOptions = {},
): Dispatcher {
  const times = { headersTimeout: silenceTimeoutMs, bodyTimeout: silenceTimeoutMs };
  const options = { timeoutMs: connectTimeoutMs, tls };
  const proxies = readProxies(env);
  const direct = httpConnector(options);
  const toHttpProxy = httpConnector({ timeoutMs: connectTimeoutMs });

  return new Agent({
    factory: (origin) => {
      const url = new URL(origin);
      const proxy = proxies.for(url);
      if (proxy === undefined) {
        return new Pool(origin, {
          ...times,
          connect: gate === undefined ? direct : gatedConnector(gate, options, url),
        });
      }
      // The proxy itself is the operator's; what it is asked for is not.
      const toProxy = (connect: buildConnector.connector): buildConnector.connector =>
        gate === undefined ? connect : checkedConnector(() => gate.checkProxied(endpointOf(url)), connect);
      if (url.protocol === 'https:' || proxy.url.protocol === 'https:') {
        return new Pool(origin, { ...times, connect: toProxy(httpConnector(options, proxy)) });
      }
      // Plain http is not tunnelled, as with curl: many proxies tunnel to port 443 only.
      return new ProxyAgent({
        ...times,
        uri: proxy.url.href,
        ...(proxy.authorization === undefined ? {} : { token: proxy.authorization.reveal() }),
        proxyTunnel: false,
        factory: (at) => new Pool(at, { ...times, connect: toProxy(toHttpProxy) }),
        clientFactory: (at) => new Pool(at, { ...times, connect: toHttpProxy }),
      });
    },
  });
}

/** `connect` of an undici dispatcher for one origin: it connects only to addresses that the gate has checked. */
export function gatedConnector(gate: OutboundGate, options: ConnectOptions, origin: URL): buildConnector.connector {
  const place = endpointOf(origin);
  const connect = httpConnector({ ...options, lookup: gate.lookup(place.port) });
  // Names are checked when they are looked up; addresses are not looked up.
  if (isIP(place.host) === 0) return connect;
  return checkedConnector(async () => void (await gate.addresses(place)), connect);
}

/** `connect` that asks first, and fails with what `check` rejects with. */
export function checkedConnector(
  check: () => Promise<void>,
  connect: buildConnector.connector,
): buildConnector.connector {
  return (target, callback) => {
    check().then(
      () => connect(target, callback),
      (error: Error) => callback(error, null),
    );
  };
}
