import { backoffMs } from '../lib/run/async.js';

/** Upper bound of the first wait: the clients of a lost server must not reconnect in one moment. */
const FIRST_WAIT_MS = 1000;
/** A connection that lasted this long resets the backoff. */
const STABLE_MS = 5000;
/**
 * After the loss of such a connection its server is assumed to restart for this long, and the waits
 * stay short.
 */
const RESTART_MS = 60_000;
/**
 * Reconnects at once, in a row: servers that all send their clients away are not asked in a loop.
 */
const MAX_AT_ONCE = 5;
/** Upper bound of the waits during a restart. */
const SOON_MS = 2000;
/** When a missing connection is logged louder: a restart of the server is over by then. */
const WARN_MS = 15_000;
const ERROR_MS = 60_000;

/**
 * Backoff of reconnects with full jitter. After the loss of a lasting connection the waits stay
 * short for a minute, since servers restart; then, and where there was none, their bound doubles up
 * to `maxMs`.
 */
export class ReconnectBackoff {
  readonly #maxMs: number;
  readonly #now: () => number;
  readonly #random: () => number;
  #failures = 0;
  #failingSinceMs: number | undefined;
  /** Until when the server is assumed to restart. */
  #restartUntilMs = Number.NEGATIVE_INFINITY;
  /** Failures since the bound grows. */
  #growing = 0;
  /** How often in a row it was sent away, without a lasting connection in between. */
  #sentAway = 0;

  constructor(options: { maxMs: number; now?: () => number; random?: () => number }) {
    this.#maxMs = options.maxMs;
    this.#now = options.now ?? (() => performance.now());
    this.#random = options.random ?? Math.random;
  }

  /** Failures in a row. */
  get failures(): number {
    return this.#failures;
  }

  /** How loudly the last of them is logged. */
  get level(): 'info' | 'warn' | 'error' {
    const failingMs = this.#failingSinceMs === undefined ? 0 : this.#now() - this.#failingSinceMs;
    return failingMs < WARN_MS ? 'info' : failingMs < ERROR_MS ? 'warn' : 'error';
  }

  /** A connection has ended that lasted this long. */
  ended(heldMs: number): void {
    if (heldMs < STABLE_MS) return;
    this.#failures = 0;
    this.#failingSinceMs = undefined;
    this.#growing = 0;
    this.#sentAway = 0;
    this.#restartUntilMs = this.#now() + RESTART_MS;
  }

  /**
   * A connection has ended that lasted this long, because the server said that another one serves.
   * True: reconnect at once, which is no failure. After it the waits are those of a restart.
   */
  sentAway(heldMs: number): boolean {
    this.ended(heldMs);
    this.#restartUntilMs = this.#now() + RESTART_MS;
    return ++this.#sentAway <= MAX_AT_ONCE;
  }

  /**
   * The wait before the next attempt. `floorMs`: the server's `Retry-After`; jitter is added.
   * `spreadMs`: time over which the clients of this server spread their reconnects.
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
