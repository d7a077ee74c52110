import { errorText, failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { isAbort, sleep, Wakeup } from '../../lib/run/async.js';
import type { SocketSession } from '../../pubsub/socket-client.js';
import { MAX_FAILING, MAX_LISTED_SEQS, type Position, REPORT_METHOD, type SessionReport } from '../../wire/session.js';
import type { ChangeSteps } from './change-steps.js';

/** A report without its client and time. */
export type StateToReport = Omit<SessionReport, 'client_id' | 'at' | 'position' | 'steps'> & {
  readonly position: Position | undefined;
};

/** Changes within this time are one report. */
const DEBOUNCE_MS = 500;
/** Longest wait for the server's answer; after a lost report comes the next one. */
const ANSWER_MS = 10_000;
/** Wait after a refused report. */
const REFUSED_MS = 1000;

/**
 * Reports the state of this client to the server (design D31): soon after a change and with every
 * heartbeat, so that a lost report does not matter. Nothing waits for it.
 */
export class StateReporter {
  readonly clientId: string;
  readonly #state: () => StateToReport;
  readonly #steps: Pick<ChangeSteps, 'take' | 'tellAgain'>;
  readonly #debounceMs: number;
  readonly #traced: <T>(work: () => Promise<T>) => Promise<T>;
  readonly #log: Logger;
  readonly #changed = new Wakeup();

  constructor(
    options: { clientId: string; debounceMs?: number },
    deps: {
      state: () => StateToReport;
      steps: Pick<ChangeSteps, 'take' | 'tellAgain'>;
      traced?: (<T>(work: () => Promise<T>) => Promise<T>) | undefined;
      log: Logger;
    },
  ) {
    this.clientId = options.clientId;
    this.#debounceMs = options.debounceMs ?? DEBOUNCE_MS;
    this.#state = deps.state;
    this.#traced = deps.traced ?? ((work) => work());
    this.#steps = deps.steps;
    this.#log = deps.log;
  }

  /** The state may have changed. */
  changed(): void {
    this.#changed.set();
  }

  /** Reports over a connection until it ends. */
  follow(session: Pick<SocketSession, 'signal' | 'call'>, heartbeatMs: number): void {
    this.#run(session, heartbeatMs).catch((error: unknown) => {
      if (!isAbort(error, session.signal) && !session.signal.aborted) {
        this.#log.error(failureFields(error, 'stack'), 'reports to the server have ended');
      }
    });
  }

  async #run({ signal, call }: Pick<SocketSession, 'signal' | 'call'>, heartbeatMs: number): Promise<void> {
    let sent = '';
    this.#steps.tellAgain();
    for (;;) {
      const report = this.#report();
      const text = JSON.stringify(report);
      let taken = true;
      const { steps, told } = this.#steps.take();
      try {
        const full: SessionReport = { ...report, ...(steps.length > 0 && { steps }), at: Date.now() };
        taken = (await this.#traced(() => call(REPORT_METHOD, full, ANSWER_MS))) === true;
        if (taken) told();
        if (!taken && text !== sent) this.#log.debug({}, 'the server rejected a report');
      } catch (error) {
        signal.throwIfAborted();
        this.#log.debug({ error: errorText(error) }, 'no answer to a report');
      }
      sent = text;
      // An instance that has not read as much of the log as the client has takes no report yet.
      await this.#changed.wait(signal, taken ? heartbeatMs : Math.min(heartbeatMs, REFUSED_MS));
      await sleep(this.#debounceMs, signal);
    }
  }

  #report(): SessionReport {
    const { position, failing, blocked, ...state } = this.#state();
    return {
      client_id: this.clientId,
      position: position ?? null,
      ...state,
      failing: failing.slice(0, MAX_FAILING),
      blocked: blocked.slice(0, MAX_LISTED_SEQS),
    };
  }
}
