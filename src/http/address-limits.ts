import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';
import type { ClientAddresses } from './client-address.js';

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

/**
 * Limits what one address may use before it has authenticated. A connection counts until a caller on it is authenticated, so a fleet
 * behind one address is not limited. Connections of trusted proxies do not count; the requests over them do, for the address that the
 * proxy names.
 */
export class AddressLimits {
  readonly addresses: ClientAddresses;
  readonly #log: Logger;
  readonly #connections: Shares;
  readonly #bytes: Shares;
  /** Return the share of a connection, or of a request through a proxy. */
  readonly #releases = new WeakMap<Socket | IncomingMessage, () => void>();
  readonly #warnings = new Map<string, number>();

  constructor(bounds: AddressBounds, deps: { addresses: ClientAddresses; log: Logger }) {
    this.addresses = deps.addresses;
    this.#log = deps.log;
    this.#connections = new Shares(bounds.connections);
    this.#bytes = new Shares(bounds.bytes);
  }

  /** Connections that count for an address now. */
  countOf(address: string): number {
    return this.#connections.of(address);
  }

  /** Counts a new connection. One too many is closed: there is no request yet to respond to. */
  connected(socket: Socket): void {
    if (this.#releases.has(socket) || this.addresses.isFromProxy(socket)) return;
    const address = this.addresses.of({ socket, headers: {} });
    const release = this.#connections.take(address, 1);
    if (release === undefined) {
      this.#warn(address, 'SYNC_CONNECTIONS_PER_ADDRESS');
      socket.destroy();
      return;
    }
    this.#releases.set(socket, release);
    socket.once('close', release);
  }

  /** Counts a request through a proxy until {@link done}; returns false for every other. Throws `address_limit`. */
  requested(request: IncomingMessage): boolean {
    if (!this.addresses.isFromProxy(request.socket)) return false;
    const address = this.addresses.of(request);
    const release = this.#connections.take(address, 1);
    if (release === undefined) throw this.#refusal(address, 'SYNC_CONNECTIONS_PER_ADDRESS');
    this.#releases.set(request, release);
    return true;
  }

  /** The caller is authenticated: its connection counts no longer. */
  letIn(request: IncomingMessage): void {
    this.#releases.get(request.socket)?.();
    this.done(request);
  }

  /** The request has ended. */
  done(request: IncomingMessage): void {
    this.#releases.get(request)?.();
  }

  /** Takes room for the body of an unauthenticated caller; returns a function that releases it. Throws `address_limit`. */
  takeBytes(request: IncomingMessage, bytes: number): () => void {
    const address = this.addresses.of(request);
    const release = this.#bytes.take(address, bytes);
    if (release === undefined) throw this.#refusal(address, 'SYNC_UNAUTHENTICATED_BYTES_PER_ADDRESS');
    return release;
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

/** How much of something each address has now. */
class Shares {
  readonly #most: number;
  readonly #used = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  of(address: string): number {
    return this.#used.get(address) ?? 0;
  }

  /** Takes an amount; returns a function that releases it, once, or undefined if too little is left. */
  take(address: string, amount: number): (() => void) | undefined {
    const used = this.of(address) + amount;
    if (used > this.#most) return undefined;
    this.#used.set(address, used);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      const left = this.of(address) - amount;
      if (left > 0) this.#used.set(address, left);
      else this.#used.delete(address);
    };
  }
}
