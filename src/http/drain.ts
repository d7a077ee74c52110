import type { Server } from 'node:http';
import { sleep } from '../lib/run/async.js';

/** Whether a program drains: it was asked to end, and serves until nobody comes any more. */
export class Drain {
  #isBegun = false;

  /** Readiness is false from now on. */
  get isBegun(): boolean {
    return this.#isBegun;
  }

  /**
   * Begins, and resolves after `delayMs`, in which load balancers notice. Each response ends its
   * connection from now on: a caller that keeps connections must not send its next request into the
   * end of this program. Rejects when the signal aborts.
   */
  async begin(server: Server, delayMs: number, signal: AbortSignal): Promise<void> {
    this.#isBegun = true;
    server.prependListener('request', (_, response) => response.setHeader('connection', 'close'));
    await sleep(delayMs, signal);
  }
}
