import { SyncError } from '../lib/errors.js';
import { SerialQueue } from '../lib/run/async.js';
import { GoKeeper, type GoKeeperDeps, type GoKeeperOptions, type GoState } from './go-keeper.js';
import type { DocumentOp, OpaRequest, OpaResponse } from './types.js';

/** Queries that wait for their turn. */
const MOST_WAITING = 32;

/**
 * Queries that callers write themselves (`/v1/query`, `/v1/compile`): one at a time, in a Go
 * process of their own, which holds what the other one holds. Decisions never wait for one, however
 * long it takes.
 */
export class FreeQueries {
  readonly #go: GoKeeper;
  readonly #turns = new SerialQueue();
  #waiting = 0;

  /** `onFailing` of the process is nobody's business: decisions go on. */
  constructor(options: GoKeeperOptions, deps: Omit<GoKeeperDeps, 'onFailing'>) {
    this.#go = new GoKeeper(options, { ...deps, onFailing: () => undefined });
  }

  get state(): GoState {
    return this.#go.state;
  }

  /** Whether there is a process, or one is being started. */
  get isHeld(): boolean {
    return this.#go.isHeld;
  }

  /** Rejects with `engine_unreachable` at once where too many wait. */
  async http(request: OpaRequest): Promise<OpaResponse> {
    if (this.#waiting >= MOST_WAITING) {
      throw new SyncError('engine_unreachable', `${MOST_WAITING} queries are waiting already: send fewer at a time`, {
        retryable: true,
        retryAfterSeconds: 1,
      });
    }
    this.#waiting++;
    try {
      return await this.#turns.run(() => this.#go.use((go) => go.http(request)));
    } finally {
      this.#waiting--;
    }
  }

  /** Follows a change of the documents. */
  write(ops: readonly DocumentOp[]): void {
    this.#go.write(ops);
  }

  /** What the process holds is not the truth any more: the next query gets another one. */
  drop(reason: string): void {
    this.#go.drop(reason);
  }

  close(): Promise<void> {
    return this.#go.close();
  }
}
