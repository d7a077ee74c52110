import type { Duplex } from 'node:stream';
import { networkOf } from '../lib/net/address.js';

/**
 * The delays of one address grow to this many times the first one: 8 s, below the handshake timeout
 * of 10 s of peers.
 */
const LONGEST = 8;
/** The delay of an address starts over after this long without a refusal. */
const FORGET_MS = 60_000;
/** Bounds on the memory of refused peers. */
const MAX_HELD = 1_000;
const MAX_HELD_OF_ADDRESS = 32;
const MAX_ADDRESSES = 10_000;

interface Seen {
  refusals: number;
  held: number;
  lastMs: number;
}

/**
 * Delays refusals. Python OPAL clients retry a refused handshake at once, about a hundred times a
 * second (opal-protocol P10.2): a late response slows them down. Each refusal of an address is
 * delayed twice as long as the one before, up to {@link LONGEST} times the first.
 */
export class Tarpit {
  readonly #firstMs: number;
  readonly #now: () => number;
  /** In order of their last refusal. */
  readonly #addresses = new Map<string, Seen>();
  readonly #held = new Set<() => void>();
  #over = false;

  constructor(firstMs: number, now: () => number = () => performance.now()) {
    this.#firstMs = firstMs;
    this.#now = now;
  }

  /** Responses that are delayed now. */
  get heldCount(): number {
    return this.#held.size;
  }

  /**
   * Resolves with true when the response is due: after the delay, or when the peer has
   * disconnected. Resolves with false, at once, where the tarpit is full.
   */
  async hold(address: string, socket: Duplex): Promise<boolean> {
    if (this.#over || socket.destroyed || socket.readableEnded) return true;
    const seen = this.#remember(networkOf(address));
    if (this.#held.size >= MAX_HELD || seen.held >= MAX_HELD_OF_ADDRESS) return false;
    seen.held++;
    await this.#wait(this.#firstMs * Math.min(2 ** (seen.refusals - 1), LONGEST), socket);
    seen.held--;
    return true;
  }

  /** Ends all delays; nothing is delayed from now on. */
  end(): void {
    this.#over = true;
    for (const end of this.#held) end();
  }

  #wait(ms: number, socket: Duplex): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#held.delete(end);
        socket.off('close', end).off('end', end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      this.#held.add(end);
      socket.once('close', end).once('end', end);
      // A disconnect is noticed only while the socket is read.
      socket.resume();
    });
  }

  #remember(address: string): Seen {
    const nowMs = this.#now();
    const last = this.#addresses.get(address);
    const isFresh = last !== undefined && (last.held > 0 || nowMs - last.lastMs < FORGET_MS);
    const seen = isFresh ? last : { refusals: 0, held: 0, lastMs: nowMs };
    seen.refusals++;
    seen.lastMs = nowMs;
    this.#addresses.delete(address);
    this.#addresses.set(address, seen);
    for (const oldest of this.#addresses.keys()) {
      if (this.#addresses.size <= MAX_ADDRESSES) break;
      this.#addresses.delete(oldest);
    }
    return seen;
  }
}
