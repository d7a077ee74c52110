import type { Standing } from '../reconcile/standing.js';

/** What {@link PositionWaits} asks. */
export interface PositionWaitsDeps {
  readonly standing: (seq: number) => Standing;
  /** Asks the server for updates that may be missing. */
  readonly catchUp: () => void;
}

/** How long a notice may be on its way before the server is asked. */
const NOTICE_MS = 100;

interface Waiting {
  readonly seq: number;
  readonly done: (standing: Standing) => void;
}

/**
 * Those who wait until this client has applied an update (design 9.7: read your writes). They are looked at when something
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
        const standing = this.#deps.standing(waiting.seq);
        if (isFinal(standing)) waiting.done(standing);
      }
    });
  }

  /**
   * Waits until the update is applied, or blocked; at most so long, and no longer than the signal. Answers how it stands
   * then. An update that nobody has told us of is asked for.
   */
  async wait(seq: number, timeoutMs: number, signal: AbortSignal): Promise<Standing> {
    const now = this.#deps.standing(seq);
    if (isFinal(now) || timeoutMs <= 0) return now;
    return new Promise((resolve) => {
      const ask = setTimeout(() => {
        if (this.#deps.standing(seq) === 'unknown') this.#deps.catchUp();
      }, NOTICE_MS);
      const end = (): void => waiting.done(this.#deps.standing(seq));
      const timer = setTimeout(end, timeoutMs);
      const waiting: Waiting = {
        seq,
        done: (standing) => {
          clearTimeout(ask);
          clearTimeout(timer);
          signal.removeEventListener('abort', end);
          this.#waiting.delete(waiting);
          resolve(standing);
        },
      };
      this.#waiting.add(waiting);
      signal.addEventListener('abort', end, { once: true });
    });
  }
}

function isFinal(standing: Standing): boolean {
  return standing === 'applied' || standing === 'blocked';
}
