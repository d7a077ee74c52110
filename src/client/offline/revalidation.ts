import { isAbort, sleep, Wakeup } from '../../lib/async.js';
import type { ClientSettings } from '../options.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';

/** Most time between the moment when something newer may be there and the question whether it is. */
const SPREAD_MS = 2000;

/** The settings that say what is asked for. */
type RevalidationSettings = Pick<ClientSettings, 'policyUpdaterEnabled' | 'dataUpdaterEnabled'>;

interface RevalidationDeps {
  readonly follower: { readonly following: boolean; readonly server: { readonly connected: boolean } };
  readonly policy: Pick<PolicyUpdater, 'requestComplete'>;
  readonly data: Pick<DataUpdater, 'revalidate'>;
}

/**
 * After an engine has started anew and was filled from memory: asks, a random moment later, whether there is something newer.
 * What ends one engine may have ended those of a whole fleet, and all of them have the same servers and sources.
 */
export class Revalidation {
  readonly #settings: RevalidationSettings;
  readonly #deps: RevalidationDeps;
  readonly #wakeup = new Wakeup();

  constructor(settings: RevalidationSettings, deps: RevalidationDeps) {
    this.#settings = settings;
    this.#deps = deps;
  }

  /** Several requests before the question are one. */
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
    // A client that is disconnected on purpose asks nobody; when it follows again it asks for everything.
    if (!follower.following) return;
    // While the connection is down its return asks for both.
    if (this.#settings.policyUpdaterEnabled && connected) policy.requestComplete();
    if (this.#settings.dataUpdaterEnabled) data.revalidate(connected);
  }
}
