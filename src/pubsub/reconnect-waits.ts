import { backoffMs } from '../lib/async.js';

/** Upper bound of the first wait. Also after a lost connection: a fleet must not come back in one moment. */
const FIRST_WAIT_MS = 1000;
/** A connection that held this long was a good one: the waits start anew. */
const STABLE_MS = 5000;
/** So long after such a one its server is taken to restart: whoever waits is back soon after it is. */
const RESTART_MS = 60_000;
/** Upper bound of the waits meanwhile. */
const SOON_MS = 2000;

/**
 * How long to wait before the next attempt to connect. After the loss of a connection that had lasted the waits stay short for a
 * minute, since servers restart; then, and where there was none, they double up to a bound. All are random up to their bound.
 */
export class ReconnectWaits {
  readonly #maxMs: number;
  readonly #now: () => number;
  readonly #random: () => number;
  #failures = 0;
  #failingSinceMs: number | undefined;
  /** Until then a restart is under way. */
  #restartUntilMs = Number.NEGATIVE_INFINITY;
  /** Failures since the waits grow. */
  #growing = 0;

  constructor(options: { maxMs: number; now?: () => number; random?: () => number }) {
    this.#maxMs = options.maxMs;
    this.#now = options.now ?? (() => performance.now());
    this.#random = options.random ?? Math.random;
  }

  /** Failures in a row. */
  get failures(): number {
    return this.#failures;
  }

  /** Time since the first of them. */
  get failingMs(): number {
    return this.#failingSinceMs === undefined ? 0 : this.#now() - this.#failingSinceMs;
  }

  /** A connection has ended that held for this long. */
  ended(heldMs: number): void {
    if (heldMs < STABLE_MS) return;
    this.#failures = 0;
    this.#failingSinceMs = undefined;
    this.#growing = 0;
    this.#restartUntilMs = this.#now() + RESTART_MS;
  }

  /**
   * The wait before the next attempt. `floorMs`: what the other side asks for; jitter comes on top. `spreadMs`: over how long the
   * clients of this server are to spread when all of them have lost it.
   */
  next(floorMs: number, spreadMs = 0): number {
    this.#failures++;
    this.#failingSinceMs ??= this.#now();
    const isRestart = this.#now() < this.#restartUntilMs;
    if (!isRestart) this.#growing++;
    const attempt = isRestart ? Math.min(this.#failures, 2) : this.#growing;
    const soonMs = Math.max(SOON_MS, spreadMs);
    const bounds = {
      minMs: isRestart ? Math.max(FIRST_WAIT_MS, spreadMs) : FIRST_WAIT_MS,
      maxMs: Math.min(this.#maxMs, isRestart ? soonMs : this.#maxMs),
    };
    return backoffMs(attempt, bounds, floorMs, this.#random);
  }
}
