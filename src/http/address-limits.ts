import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest, RequestPayload } from 'fastify';
import { SyncError } from '../lib/errors.js';
import { AddressRanges, canonicalAddress, networkOf } from '../lib/net/address.js';
import type { OpenConnection, OpenConnections } from '../lib/net/open-connections.js';
import type { Logger } from '../lib/observe/log.js';
import { Budget } from '../lib/run/budget.js';

/** The address of a connection that has already ended. */
const UNKNOWN = '?';

/** Finds the address of a caller behind the proxies that the operator trusts. */
export class ClientAddresses {
  readonly #trusted: AddressRanges;
  readonly #hasProxies: boolean;
  /** By connection, so that a caller which keeps one has its address computed once. */
  readonly #ofSockets = new WeakMap<object, string>();

  /**
   * `proxies` (SYNC_TRUSTED_PROXIES): addresses and networks. Throws `config_invalid` for other
   * texts.
   */
  constructor(proxies: readonly string[] = []) {
    for (const proxy of proxies) {
      try {
        new AddressRanges([proxy]);
      } catch (cause) {
        const text = `SYNC_TRUSTED_PROXIES: ${JSON.stringify(proxy)} is no address and no network like 10.0.0.0/8`;
        throw new SyncError('config_invalid', text, { cause });
      }
    }
    this.#trusted = new AddressRanges(proxies);
    this.#hasProxies = proxies.length > 0;
  }

  /** Whether a connection comes from one of the proxies. */
  isFromProxy(socket: IncomingMessage['socket']): boolean {
    return this.#hasProxies && this.#isProxy(this.#ofSocket(socket));
  }

  #isProxy(address: string): boolean {
    return address !== UNKNOWN && this.#trusted.has(address);
  }

  #ofSocket(socket: IncomingMessage['socket']): string {
    let address = this.#ofSockets.get(socket);
    if (address === undefined) {
      address = canonicalAddress(socket.remoteAddress ?? '') ?? UNKNOWN;
      if (address !== UNKNOWN) this.#ofSockets.set(socket, address);
    }
    return address;
  }

  /**
   * The last address that one of the proxies has seen: the rightmost of `X-Forwarded-For` that is
   * not a proxy. The caller may have written the others.
   */
  of({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>): string {
    let address = this.#ofSocket(socket);
    if (!this.#hasProxies || !this.#isProxy(address)) return address;
    const forwarded = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
    while (this.#isProxy(address)) {
      const next = addressIn(forwarded.pop() ?? '');
      if (next === undefined) break;
      address = next;
    }
    return address;
  }
}

/** The address in an item, which some proxies write with a port; undefined if there is none. */
function addressIn(item: string): string | undefined {
  const text = item.trim();
  return canonicalAddress(text) ?? canonicalAddress(text.replace(/:\d+$/, ''));
}

/** Bounds for each address. */
export interface AddressBounds {
  /** SYNC_CONNECTIONS_PER_ADDRESS: connections without an authenticated caller. */
  readonly connections: number;
  /** SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS: bytes of bodies of unauthenticated callers. */
  readonly bytes: number;
}

/** `Retry-After` for an address that has used up its share. */
const RETRY_SECONDS = 5;
/** Shortest time between two warnings about one address. */
const WARN_MS = 60_000;
const MAX_WARNINGS = 1_000;
/** Large bodies of callers who are not let in yet, each held whole: in all, and of one address. */
const LARGE_BODIES = { all: 2, address: 1, subject: Number.POSITIVE_INFINITY };

/**
 * Limits what one address may use before it has authenticated. A connection counts until a caller
 * on it is authenticated, so a fleet behind one address is not limited. Connections of trusted
 * proxies do not count; the requests over them do, for the address that the proxy names.
 */
export class AddressLimits {
  readonly addresses: ClientAddresses;
  readonly connections: OpenConnections;
  readonly #log: Logger;
  readonly #strangers: Budget;
  readonly #bytes: Budget;
  readonly #large = new Budget(LARGE_BODIES, { what: 'large bodies of callers who are not let in yet' });
  /** Return the share of a connection, or of a request through a proxy. */
  readonly #releases = new WeakMap<OpenConnection | IncomingMessage, () => void>();
  readonly #warnings = new Map<string, number>();

  constructor(bounds: AddressBounds, deps: { addresses: ClientAddresses; connections: OpenConnections; log: Logger }) {
    this.addresses = deps.addresses;
    this.connections = deps.connections;
    this.#log = deps.log;
    this.#strangers = ofAddresses(bounds.connections);
    this.#bytes = ofAddresses(bounds.bytes);
  }

  /** Connections that count for an address now. */
  countOf(address: string): number {
    return this.#strangers.ofAddress(address);
  }

  /**
   * Counts a new connection. If it is one too many, one of the same address on which nothing
   * happens gives way; if there is none, the new one is closed: there is no request yet to respond
   * to.
   */
  connected(connection: OpenConnection): void {
    const { socket } = connection;
    if (this.addresses.isFromProxy(socket)) return;
    const address = this.#addressOf(connection);
    let release = this.#takeConnection(address);
    const mayEnd = (other: OpenConnection): boolean =>
      other !== connection && this.#releases.has(other) && networkOf(this.#addressOf(other)) === networkOf(address);
    if (release === undefined && this.connections.makeRoom(mayEnd)) release = this.#takeConnection(address);
    if (release === undefined) {
      this.#warn(address, 'SYNC_CONNECTIONS_PER_ADDRESS');
      socket.destroy();
      return;
    }
    this.#releases.set(connection, release);
    connection.ends.add(release);
  }

  #addressOf({ socket }: OpenConnection): string {
    return this.addresses.of({ socket, headers: {} });
  }

  #takeConnection(address: string): (() => void) | undefined {
    const taken = this.#strangers.take({ subject: null, address }, 1);
    return typeof taken === 'function' ? taken : undefined;
  }

  /**
   * Counts a request through a proxy until {@link done}; returns false for every other. Throws
   * `address_limit`.
   */
  requested(request: IncomingMessage): boolean {
    if (!this.addresses.isFromProxy(request.socket)) return false;
    const address = this.addresses.of(request);
    const release = this.#takeConnection(address);
    if (release === undefined) throw this.#refusal(address, 'SYNC_CONNECTIONS_PER_ADDRESS');
    this.#releases.set(request, release);
    return true;
  }

  /** The caller is authenticated: its connection counts no longer. */
  letIn(request: IncomingMessage): void {
    const connection = this.connections.of(request.socket);
    if (connection !== undefined) {
      this.#releases.get(connection)?.();
      this.#releases.delete(connection);
    }
    this.done(request);
  }

  /** The request has ended. */
  done(request: IncomingMessage): void {
    this.#releases.get(request)?.();
  }

  /**
   * Takes room for the body of an unauthenticated caller; returns a function that releases it.
   * Throws `address_limit`.
   */
  takeBytes(request: IncomingMessage, bytes: number): () => void {
    const address = this.addresses.of(request);
    const isTooMuch = bytes > this.#bytes.bounds.address;
    const taken = isTooMuch ? undefined : this.#bytes.take({ subject: null, address }, bytes);
    if (typeof taken !== 'function') throw this.#refusal(address, 'SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS');
    return taken;
  }

  /**
   * Takes a place for a large body of an unauthenticated caller; returns a function that releases
   * it. Throws `share_used_up`, `server_busy`.
   */
  takeLarge(request: IncomingMessage): () => void {
    const taken = this.#large.take({ subject: null, address: this.addresses.of(request) }, 1);
    if (typeof taken !== 'function') throw this.#large.refusal(taken, RETRY_SECONDS);
    return taken;
  }

  #refusal(address: string, setting: string): SyncError {
    this.#warn(address, setting);
    const text = `this address has used up what ${setting} allows to callers that were not let in yet`;
    return new SyncError('address_limit', text, { retryAfterSeconds: RETRY_SECONDS });
  }

  #warn(address: string, setting: string): void {
    const nowMs = performance.now();
    if (nowMs - (this.#warnings.get(address) ?? Number.NEGATIVE_INFINITY) < WARN_MS) return;
    if (this.#warnings.size >= MAX_WARNINGS) this.#warnings.clear();
    this.#warnings.set(address, nowMs);
    const remedy = 'if it is a load balancer, name it in SYNC_TRUSTED_PROXIES';
    this.#log.warn({ address, setting, remedy }, 'an address has used up its share');
  }
}

/** A budget of each address alone. */
function ofAddresses(most: number): Budget {
  const noBound = Number.POSITIVE_INFINITY;
  return new Budget({ address: most, subject: noBound, all: noBound }, { what: '' });
}

/** Longest time for the body of an unauthenticated caller: 5 MiB at 250 KiB/s. */
export const UNAUTHENTICATED_BODY_TIMEOUT_MS = 20_000;

/** Limits of bodies of unauthenticated callers. */
export interface UnauthenticatedBodyOptions {
  readonly limits: AddressLimits;
  /** Default {@link UNAUTHENTICATED_BODY_TIMEOUT_MS}. */
  readonly timeoutMs?: number;
}

/**
 * Limits the bodies of routes without a token (a webhook that authenticates by its signature needs
 * its body first): each address has a number of bytes at one time, and a body has less time to
 * arrive than that of an authenticated caller. A body of unknown length counts as the longest. For
 * a larger body, where the route takes such, there are a few places.
 */
export function useUnauthenticatedBodyLimits(
  app: FastifyInstance,
  { limits, timeoutMs = UNAUTHENTICATED_BODY_TIMEOUT_MS }: UnauthenticatedBodyOptions,
  log: Logger,
): void {
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (request.routeOptions.config.audience?.access !== 'everyone' || !hasBody(request)) {
      done(null, payload);
      return;
    }
    const { largeFromBytes = Number.POSITIVE_INFINITY } = request.routeOptions.config;
    const releases: (() => void)[] = [];
    try {
      releases.push(limits.takeBytes(request.raw, Math.min(announced(request), largeFromBytes)));
      if (Number(request.headers['content-length']) > largeFromBytes) releases.push(limits.takeLarge(request.raw));
      else if (Number.isFinite(largeFromBytes)) {
        // Its length is not known: it takes the place once it turns out to be large.
        onceLonger(payload, largeFromBytes, () => {
          try {
            releases.push(limits.takeLarge(request.raw));
          } catch (error) {
            reply.header('connection', 'close');
            payload.emit('error', error); // the reader of the body responds with it
          }
        });
      }
    } catch (error) {
      for (const release of releases) release();
      done(error as SyncError);
      return;
    }
    const timer = setTimeout(() => {
      log.info(
        { path: request.routeOptions.url },
        'the body of an unauthenticated caller took too long: its connection is closed',
      );
      request.raw.destroy(new SyncError('address_limit', `the body did not arrive within ${timeoutMs / 1000} s`));
    }, timeoutMs);
    payload.once('end', () => clearTimeout(timer));
    limits.connections.whenOver(request.raw.socket, reply.raw, () => {
      clearTimeout(timer);
      for (const release of releases) release();
    });
    done(null, payload);
  });
}

/** Calls `then` once a stream has had more bytes. */
function onceLonger(payload: RequestPayload, bytes: number, then: () => void): void {
  let received = 0;
  const count = (chunk: Buffer): void => {
    received += chunk.length;
    if (received <= bytes) return;
    payload.off('data', count);
    then();
  };
  payload.on('data', count);
}

/** Whether a request says that it has a body. */
export function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Largest size that a body can have. */
function announced({ headers, routeOptions }: FastifyRequest): number {
  const limit = routeOptions.bodyLimit;
  const length = headers['content-length'];
  return length === undefined ? limit : Math.min(Number(length), limit);
}
