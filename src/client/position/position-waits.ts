/** How far this client is with one update of the log. */
export type UpdateProgress =
  /** The client has not heard of it: the server has to be asked. */
  | 'unknown'
  /** It, or what overlaps its paths and came before it, is not in the engine yet. */
  | 'pending'
  /** As `pending`, and the engine refuses a part until policy or data change. */
  | 'blocked'
  | 'applied';

/** What {@link PositionWaits} asks. */
export interface PositionWaitsDeps {
  readonly status: (seq: number) => UpdateProgress;
  /** Asks the server for updates that may be missing. */
  readonly catchUp: () => void;
}

/** How long a notice may be on its way before the server is asked. */
const NOTICE_MS = 100;

interface Waiting {
  readonly seq: number;
  readonly done: (status: UpdateProgress) => void;
}

/**
 * Waits until this client has applied an update (design D21: read your writes). Checks when
 * something has changed, not at intervals.
 */
export class PositionWaits {
  readonly #deps: PositionWaitsDeps;
  readonly #waiting = new Set<Waiting>();
  #isScheduled = false;

  constructor(deps: PositionWaitsDeps) {
    this.#deps = deps;
  }

  /** Something has changed; all changes of one turn of the event loop are checked once. */
  changed(): void {
    if (this.#isScheduled || this.#waiting.size === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      for (const waiting of [...this.#waiting]) {
        const status = this.#deps.status(waiting.seq);
        if (isFinal(status)) waiting.done(status);
      }
    });
  }

  /**
   * Waits until the update is applied or blocked, the time is up or the signal aborts; returns the
   * status then. Asks the server for an update that the client has not heard of.
   */
  async wait(seq: number, timeoutMs: number, signal: AbortSignal): Promise<UpdateProgress> {
    const now = this.#deps.status(seq);
    if (isFinal(now) || timeoutMs <= 0) return now;
    return new Promise((resolve) => {
      const ask = setTimeout(() => {
        if (this.#deps.status(seq) === 'unknown') this.#deps.catchUp();
      }, NOTICE_MS);
      const end = (): void => waiting.done(this.#deps.status(seq));
      const timer = setTimeout(end, timeoutMs);
      const waiting: Waiting = {
        seq,
        done: (status) => {
          clearTimeout(ask);
          clearTimeout(timer);
          signal.removeEventListener('abort', end);
          this.#waiting.delete(waiting);
          resolve(status);
        },
      };
      this.#waiting.add(waiting);
      signal.addEventListener('abort', end, { once: true });
    });
  }
}

function isFinal(status: UpdateProgress): boolean {
  return status === 'applied' || status === 'blocked';
}
