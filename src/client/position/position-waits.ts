/** How this client stands to one update of the log. */
export type ApplyStatus =
  /** Not known to be there: the server has to be asked. */
  | 'unknown'
  /** It, or what overlaps its paths and came before it, is not in the engine yet. */
  | 'pending'
  /** As `pending`, and the engine refuses a part: nothing changes before policy or data do. */
  | 'blocked'
  | 'applied';

/** What {@link PositionWaits} asks. */
export interface PositionWaitsDeps {
  readonly status: (seq: number) => ApplyStatus;
  /** Asks the server for updates that may be missing. */
  readonly catchUp: () => void;
}

/** How long a notice may be on its way before the server is asked. */
const NOTICE_MS = 100;

interface Waiting {
  readonly seq: number;
  readonly done: (status: ApplyStatus) => void;
}

/**
 * Those who wait until this client has applied an update (design D21: read your writes). They are looked at when something
 * has changed, not at intervals.
 */
export class PositionWaits {
  readonly #deps: PositionWaitsDeps;
  readonly #waiting = new Set<Waiting>();
  #isScheduled = false;

  constructor(deps: PositionWaitsDeps) {
    this.#deps = deps;
  }

  /** Something has changed; many changes of one moment are one look. */
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
   * Waits until the update is applied, or blocked; at most so long, and no longer than the signal. Answers how it stands
   * then. An update that nobody has told us of is asked for.
   */
  async wait(seq: number, timeoutMs: number, signal: AbortSignal): Promise<ApplyStatus> {
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

function isFinal(status: ApplyStatus): boolean {
  return status === 'applied' || status === 'blocked';
}
