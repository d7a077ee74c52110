import { isIP } from 'node:net';
import { Agent, type buildConnector, type Dispatcher, Pool } from 'undici';
import { type ConnectOptions, httpConnector, proxiedPool } from '../../lib/net/connect.js';
import { endpointOf, readProxies } from '../../lib/net/proxy.js';
import type { OutgoingTls } from '../../lib/net/tls.js';
import type { OutboundGate } from './gate.js';

/** Options of {@link createDispatcher}. */
export interface DispatcherOptions {
  /** Connection timeout. Default: `silenceTimeoutMs`. */
  readonly connectTimeoutMs?: number;
  /** Trusted authorities and our certificate. Default: the well-known authorities. */
  readonly tls?: OutgoingTls | undefined;
  /** Restricts destinations, for addresses that a peer names. Default: no restrictions. */
  readonly gate?: OutboundGate | undefined;
}

/**
 * Creates HTTP connections, through a proxy if `env` names one (see `lib/net/proxy.ts`).
 * `silenceTimeoutMs`: timeout of the response, and between two chunks of it. Throws
 * `config_invalid` for an invalid address of a proxy.
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
      // The operator chose the proxy, but not its destinations.
      const wrap = (connect: buildConnector.connector): buildConnector.connector =>
        gate === undefined ? connect : checkedConnector(() => gate.checkProxied(endpointOf(url)), connect);
      return proxiedPool(String(origin), proxy, { ...options, silenceTimeoutMs, wrap });
    },
  });
}

/**
 * `connect` of an undici dispatcher for one origin: connects only to addresses that the gate has
 * checked.
 */
export function gatedConnector(gate: OutboundGate, options: ConnectOptions, origin: URL): buildConnector.connector {
  const place = endpointOf(origin);
  const connect = httpConnector({ ...options, lookup: gate.lookup(place.port) });
  // Names are checked on lookup; literal addresses have no lookup.
  if (isIP(place.host) === 0) return connect;
  return checkedConnector(async () => void (await gate.addresses(place)), connect);
}

/** `connect` that calls `check` first, and fails with its error. */
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
