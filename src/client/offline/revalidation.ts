import { isAbort, sleep, Wakeup } from '../../lib/run/async.js';
import type { ClientSettings } from '../options.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';

/** Maximum random delay of a check. */
const SPREAD_MS = 2000;

/** The settings that select the checks. */
type RevalidationSettings = Pick<ClientSettings, 'policyUpdaterEnabled' | 'dataUpdaterEnabled'>;

interface RevalidationDeps {
  readonly follower: { readonly following: boolean; readonly server: { readonly connected: boolean } };
  readonly policy: Pick<PolicyUpdater, 'requestComplete'>;
  readonly data: Pick<DataUpdater, 'revalidate'>;
}

/**
 * Checks for newer content after an engine has restarted and was refilled from memory, with a
 * random delay: many engines may restart at once, and all clients have the same servers and
 * sources.
 */
export class Revalidation {
  readonly #settings: RevalidationSettings;
  readonly #deps: RevalidationDeps;
  readonly #wakeup = new Wakeup();

  constructor(settings: RevalidationSettings, deps: RevalidationDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  /** Requests a check; several requests before it are one. */
  request(): void {
    this.#wakeup.set();
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await this.#wakeup.wait(signal);
        await sleep(Math.random() * SPREAD_MS, signal);
        this.#ask();
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
  }

  #ask(): void {
    const { follower, policy, data } = this.#deps;
    const { connected } = follower.server;
    // A deliberately disconnected client sends no requests; when it follows again, it requests
    // everything.
    if (!follower.following) return;
    // If the connection is down, a reconnect requests both.
    if (this.#settings.policyUpdaterEnabled && connected) policy.requestComplete();
    if (this.#settings.dataUpdaterEnabled) data.revalidate(connected);
  }
}
