import type { Duplex } from 'node:stream';

/** Holds of one address grow to this many times the first one: 8 s, below the 10 s after which peers give up on an answer. */
const LONGEST = 8;
/** An address that was not refused for this long starts anew. */
const FORGET_MS = 60_000;
/** Bounds what refused peers can make us keep. */
const MAX_HELD = 1_000;
const MAX_HELD_OF_ADDRESS = 32;
const MAX_ADDRESSES = 10_000;

interface Seen {
  refusals: number;
  held: number;
  lastMs: number;
}

/**
 * Holds refusals back. Python OPAL clients come again at once after a refused handshake, about a hundred times a second
 * (opal-protocol P10.2): an answer that is late slows them down. Each refusal of an address is held twice as long as the one
 * before, up to {@link LONGEST} times the first.
 */
export class Tarpit {
  readonly #firstMs: number;
  readonly #now: () => number;
  /** Refused last stands last. */
  readonly #addresses = new Map<string, Seen>();
  readonly #held = new Set<() => void>();
  #over = false;

  constructor(firstMs: number, now: () => number = () => performance.now()) {
    this.#firstMs = firstMs;
    this.#now = now;
  }

  /** Answers that are held back now. */
  get heldCount(): number {
    return this.#held.size;
  }

  /**
   * Resolves with true when the answer is due: after the hold, or when the peer has left. Resolves with false, at once, where
   * no more can be held: then it is told to come later in a way that also Python clients heed.
   */
  async hold(address: string, socket: Duplex): Promise<boolean> {
    if (this.#over || socket.destroyed || socket.readableEnded) return true;
    const seen = this.#remember(address);
    if (this.#held.size >= MAX_HELD || seen.held >= MAX_HELD_OF_ADDRESS) return false;
    seen.held++;
    await this.#wait(this.#firstMs * Math.min(2 ** (seen.refusals - 1), LONGEST), socket);
    seen.held--;
    return true;
  }

  /** Ends all holds; from now on nothing is held. */
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
      // Whoever leaves is noticed only while we read.
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
