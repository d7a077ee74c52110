import { isIP, type LookupFunction, type Socket, connect as tcpConnect } from 'node:net';
import { type SecureContext, connect as tlsConnect } from 'node:tls';
import { buildConnector, type Dispatcher, Pool, ProxyAgent } from 'undici';
import { endpointOf, openTunnel, type Proxies, type ProxyServer } from './proxy.js';
import type { OutgoingTls } from './tls.js';

/**
 * How connections are opened. Certificates are always verified, whatever
 * NODE_TLS_REJECT_UNAUTHORIZED says.
 */
export interface ConnectOptions {
  readonly timeoutMs: number;
  /** Default: the well-known authorities, no certificate of our own. */
  readonly tls?: OutgoingTls | undefined;
  /** Resolves a name. Default: as the system does. */
  readonly lookup?: LookupFunction | undefined;
}

/** `connect` of an undici dispatcher; through `proxy`, by CONNECT, where one is given. */
export function httpConnector(
  { timeoutMs, tls, lookup }: ConnectOptions,
  proxy?: ProxyServer,
): buildConnector.connector {
  const common = { timeout: timeoutMs, rejectUnauthorized: true, ...(lookup === undefined ? {} : { lookup }) };
  const withoutContext = buildConnector(common);
  // One for each context, since a connector remembers sessions.
  const built = new WeakMap<SecureContext, buildConnector.connector>();
  const open = (target: buildConnector.Options, callback: buildConnector.Callback): void => {
    connectorFor(target)(target, (...result) => {
      // undici leaves the socket of a failure out, whatever its types say.
      if (result[1]) tellAlerts(result[1]);
      callback(...result);
    });
  };
  const connectorFor = (target: buildConnector.Options): buildConnector.connector => {
    if (tls === undefined || target.protocol !== 'https:') return withoutContext;
    const context = tls.context(endpointOf(target));
    const connector = built.get(context) ?? buildConnector({ ...common, secureContext: context });
    built.set(context, connector);
    return connector;
  };
  if (proxy === undefined) return open;
  return (target, callback) => {
    openTunnel(proxy, endpointOf(target), { timeoutMs, tls }).then(
      (socket) => {
        if (target.protocol === 'https:') open({ ...target, httpSocket: socket }, callback);
        else callback(null, socket);
      },
      (error: Error) => callback(error, null),
    );
  };
}

/** How {@link proxiedPool} connects. */
export interface ProxiedOptions extends ConnectOptions {
  /** Timeout of a response, and between two chunks of it. */
  readonly silenceTimeoutMs: number;
  /** Wraps what connects for a request. */
  readonly wrap?: (connect: buildConnector.connector) => buildConnector.connector;
}

/**
 * Connections to one origin through a proxy. Plain http is not tunnelled but forwarded, as with
 * curl: many proxies tunnel to port 443 only.
 */
export function proxiedPool(
  origin: string,
  proxy: ProxyServer,
  { silenceTimeoutMs, wrap = (connect) => connect, ...options }: ProxiedOptions,
): Dispatcher {
  const times = { headersTimeout: silenceTimeoutMs, bodyTimeout: silenceTimeoutMs };
  if (new URL(origin).protocol === 'https:' || proxy.url.protocol === 'https:') {
    return new Pool(origin, { ...times, connect: wrap(httpConnector(options, proxy)) });
  }
  const toHttpProxy = httpConnector({ timeoutMs: options.timeoutMs });
  return new ProxyAgent({
    ...times,
    uri: proxy.url.href,
    ...(proxy.authorization === undefined ? {} : { token: proxy.authorization.reveal() }),
    proxyTunnel: false,
    factory: (at) => new Pool(at, { ...times, connect: wrap(toHttpProxy) }),
    clientFactory: (at) => new Pool(at, { ...times, connect: toHttpProxy }),
  });
}

/** Opens the connection of a WebSocket. */
export type Dial = (url: URL, signal: AbortSignal) => Promise<Socket>;

/**
 * A connection for `ws:` and `wss:` URLs, by CONNECT if a proxy applies. It may still be connecting
 * when the promise resolves.
 */
export function socketDial({ timeoutMs, tls }: ConnectOptions, proxies: Proxies): Dial {
  return async (url, signal) => {
    const target = endpointOf(url);
    const proxy = proxies.for(url);
    const tunnel = proxy === undefined ? undefined : await openTunnel(proxy, target, { timeoutMs, tls, signal });
    if (url.protocol !== 'wss:') return tunnel ?? tcpConnect(target);
    const socket = tlsConnect({
      ...(tunnel === undefined ? target : { socket: tunnel, host: target.host }),
      ...(tls === undefined ? {} : { secureContext: tls.context(target) }),
      servername: isIP(target.host) === 0 ? target.host : '',
      rejectUnauthorized: true,
    });
    tellAlerts(socket);
    return socket;
  };
}

/**
 * With TLS 1.3 the peer rejects our certificate, or its absence, by an alert after the handshake.
 * Node reports that as an error that does not end the socket, with a place in the source of
 * OpenSSL. This ends the socket with the text of the alert; otherwise the user reads "other side
 * closed".
 */
function tellAlerts(socket: Socket): void {
  socket.on('error', (error) => {
    const alert = /\balert ([a-z ]{1,80}):/.exec(error.message)?.[1];
    if (alert === undefined) return;
    error.message = `the other side refused the connection: TLS alert "${alert}"`;
    socket.destroy(error);
  });
}
