import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP, type Socket } from 'node:net';
import { SyncError } from '../errors.js';
import { Secret } from '../observe/log.js';
import { AddressRanges, canonicalAddress } from './address.js';
import { type PlaceRule, placeRule } from './place-rules.js';
import type { Endpoint, OutgoingTls } from './tls.js';

/** A proxy, as the environment names it. */
export interface ProxyServer {
  /** Its address, without credentials. */
  readonly url: URL;
  /** Value of `Proxy-Authorization`, from user name and password of the address. */
  readonly authorization: Secret | undefined;
}

/** Which connection goes through which proxy. */
export interface Proxies {
  /** The proxy for a connection to an http(s) or ws(s) URL; undefined: none. */
  for(url: URL): ProxyServer | undefined;
}

/** No proxy for anything. */
const NO_PROXIES: Proxies = { for: () => undefined };

/**
 * The proxies of an environment: HTTP_PROXY for http and ws, HTTPS_PROXY for https and wss, except
 * what NO_PROXY lists; also in lower case, which wins. NO_PROXY: names (with everything below
 * them), addresses, address ranges `10.0.0.0/8`, each with a port if wanted, or `*`. This machine
 * itself (localhost, loopback addresses) is never behind a proxy. Throws `config_invalid` for a
 * proxy address that is not valid.
 */
export function readProxies(env: Readonly<Record<string, string | undefined>>): Proxies {
  const http = readProxy('HTTP_PROXY', env);
  const https = readProxy('HTTPS_PROXY', env);
  if (http === undefined && https === undefined) return NO_PROXIES;
  const excluded = exclusions(setting('NO_PROXY', env));
  return {
    for: (url) => {
      const secure = url.protocol === 'https:' || url.protocol === 'wss:';
      const proxy = secure ? https : http;
      if (proxy === undefined) return undefined;
      const target = endpointOf(url);
      return isLoopback(target.host) || excluded(target) ? undefined : proxy;
    },
  };
}

/** How {@link openTunnel} works. */
export interface TunnelOptions {
  readonly timeoutMs: number;
  /** For a proxy that itself uses TLS. */
  readonly tls?: OutgoingTls | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A connection to `host:port` through a proxy (CONNECT). Rejects with what the proxy said; never
 * with its credentials.
 */
export function openTunnel(
  proxy: ProxyServer,
  target: Endpoint,
  { timeoutMs, tls, signal }: TunnelOptions,
): Promise<Socket> {
  const authority = `${isIP(target.host) === 6 ? `[${target.host}]` : target.host}:${target.port}`;
  const overTls = proxy.url.protocol === 'https:';
  const place = endpointOf(proxy.url);
  return new Promise((resolve, reject) => {
    const fail = (why: string, cause?: unknown): void =>
      reject(new Error(`the proxy ${proxy.url.origin} ${why} for ${authority}`, { cause }));
    const request = (overTls ? httpsRequest : httpRequest)({
      method: 'CONNECT',
      ...place,
      path: authority,
      agent: false,
      headers: {
        host: authority,
        ...(proxy.authorization === undefined ? {} : { 'proxy-authorization': proxy.authorization.reveal() }),
      },
      ...(signal === undefined ? {} : { signal }),
      ...(overTls ? { rejectUnauthorized: true } : {}),
      ...(overTls && tls !== undefined ? { secureContext: tls.context(place) } : {}),
    });
    const timer = setTimeout(() => request.destroy(new Error(`no tunnel within ${timeoutMs} ms`)), timeoutMs);
    request.once('connect', (response, socket, head) => {
      clearTimeout(timer);
      const status = response.statusCode ?? 0;
      if (status < 200 || status > 299) {
        socket.destroy();
        fail(`answered ${status} to CONNECT`);
        return;
      }
      if (head.length > 0) socket.unshift(head);
      resolve(socket);
    });
    request.once('error', (cause) => {
      clearTimeout(timer);
      fail('opened no tunnel', cause);
    });
    request.end();
  });
}

/**
 * Host and port of an http(s) or ws(s) URL for a socket: an IPv6 address without brackets, always a
 * port.
 */
export function endpointOf({ hostname, port, protocol }: Pick<URL, 'hostname' | 'port' | 'protocol'>): Endpoint {
  const host = hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  return { host, port: port === '' ? (protocol === 'https:' || protocol === 'wss:' ? 443 : 80) : Number(port) };
}

function setting(name: string, env: Readonly<Record<string, string | undefined>>): string {
  return env[name.toLowerCase()] ?? env[name] ?? '';
}

/** The address may have a password, so no message shows it, not even as a cause. */
function readProxy(name: string, env: Readonly<Record<string, string | undefined>>): ProxyServer | undefined {
  const text = setting(name, env).trim();
  if (text === '') return undefined;
  const full = text.includes('://') ? text : `http://${text}`;
  const url = URL.canParse(full) ? new URL(full) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new SyncError('config_invalid', `${name} is not the address of a proxy: it must be http://host:port`);
  }
  const credentials = decoded(name, `${url.username}:${url.password}`);
  url.username = '';
  url.password = '';
  const authorization =
    credentials === ':' ? undefined : new Secret(`Basic ${Buffer.from(credentials).toString('base64')}`);
  return { url, authorization };
}

function decoded(name: string, credentials: string): string {
  try {
    return decodeURIComponent(credentials);
  } catch {
    throw new SyncError('config_invalid', `${name}: user name or password has a % that is not written as %25`);
  }
}

/** True for a name or address of this machine itself; `host` as {@link endpointOf} has it. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host.endsWith('.localhost')) return true;
  return isIP(host) !== 0 && LOOPBACK.has(host);
}

const LOOPBACK = new AddressRanges(['127.0.0.0/8', '::1']);

/** Reads NO_PROXY. Invalid items exclude nothing, as everywhere. */
function exclusions(text: string): (target: Endpoint) => boolean {
  if (/(^|[,\s])\*($|[,\s])/.test(text)) return () => true;
  const rules = text.split(/[,\s]+/).flatMap((item) => exclusion(item) ?? []);
  return ({ host, port }) => {
    const address = canonicalAddress(host);
    return rules.some((rule) =>
      address === undefined ? rule.fitsName({ host, port }) : rule.fitsAddress(address, port),
    );
  };
}

function exclusion(item: string): PlaceRule | undefined {
  try {
    const rule = placeRule(item);
    return rule.address === undefined ? placeRule(`.${item.replace(/^\*?\./, '')}`) : rule; // a name has those below it
  } catch {
    return undefined;
  }
}
