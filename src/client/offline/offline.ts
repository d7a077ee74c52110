import { failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { isAbort, SerialQueue } from '../../lib/run/async.js';
import type { EngineCopy } from '../reconcile/engine-copy.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';
import type { Backup, BackupState } from './backup.js';
import {
  type ConnectivityAnswer,
  type ConnectivityConditions,
  type ConnectivityEffect,
  type ConnectivityEvent,
  type ConnectivityState,
  connectivityTransition,
} from './connectivity.js';
import type { Restored } from './restore.js';

/** Settings of {@link Offline}. */
export interface OfflineOptions {
  readonly offlineMode: boolean;
  readonly disconnectDefault: boolean;
  readonly policyEnabled: boolean;
}

/** Dependencies of {@link Offline}. */
export interface OfflineDeps {
  readonly follower: { start(): void; stop(): Promise<void> };
  readonly backup: Pick<Backup, 'save' | 'loaded' | 'refused' | 'run' | 'state'>;
  /** Reads the backup and fills the engine; see `restoreBackup`. */
  readonly restore: (signal: AbortSignal) => Promise<Restored | undefined>;
  readonly held: Pick<EngineCopy, 'isEmpty'>;
  readonly policy: Pick<PolicyUpdater, 'wantComplete'>;
  /** Schedules a check of server and sources for newer content. */
  readonly refetch: () => void;
  readonly log: Logger;
}

/** The view for status and routes. */
export interface ConnectivityView {
  readonly disabled: boolean;
  readonly offlineMode: boolean;
  /** The backup; undefined with offline mode off. */
  readonly backup: BackupState | undefined;
}

/**
 * Executes the table of `connectivity.ts`: one event at a time; enters the next state only when all
 * effects are done. If an effect fails, the client returns to the previous state.
 */
export class Offline {
  readonly #options: OfflineOptions;
  readonly #deps: OfflineDeps;
  #state: ConnectivityState = 'starting';
  readonly #queue = new SerialQueue();
  #backupLoaded = false;
  #signal: AbortSignal | undefined;

  constructor(options: OfflineOptions, deps: OfflineDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  get state(): ConnectivityState {
    return this.#state;
  }

  get view(): ConnectivityView {
    const { offlineMode } = this.#options;
    return {
      disabled: this.#state === 'disconnected',
      offlineMode,
      backup: offlineMode ? this.#deps.backup.state : undefined,
    };
  }

  /** Starts, from the backup if there is one, and maintains the backup until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    try {
      await this.#queue.run(async () => {
        // The engine holds the backup before any request to the server.
        if (this.#options.offlineMode) await this.#restore(signal);
        signal.throwIfAborted();
        await this.#take('start');
      });
      if (this.#options.offlineMode) await this.#deps.backup.run(signal);
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
    await this.#queue.settled();
  }

  /** Follows the server again. Resolves once that has begun; content arrives in the background. */
  enable(): Promise<ConnectivityAnswer> {
    return this.#ask('enable');
  }

  /**
   * Stops following the server. Resolves once that has ended and the backup is saved. Rejects with
   * `backup_unwritable`: the client then follows the server as before.
   */
  disable(): Promise<ConnectivityAnswer> {
    return this.#ask('disable');
  }

  /** Called when the engine has restarted empty and was refilled by the client. */
  engineRestarted(): void {
    this.#queue
      .run(() => this.#take('engine_restarted'))
      .catch((error: unknown) => {
        if (this.#signal?.aborted !== true) this.#deps.log.error(failureFields(error), 'after the engine restarted');
      });
  }

  async #ask(event: 'enable' | 'disable'): Promise<ConnectivityAnswer> {
    // The start may wait for the engine; callers must not wait for the start.
    const outcome = this.#state === 'starting' ? this.#take(event) : this.#queue.run(() => this.#take(event));
    const answer = await outcome;
    if (answer === undefined) throw new Error(`${event} has no answer in state ${this.#state}`);
    return answer;
  }

  get #conditions(): ConnectivityConditions {
    const { offlineMode, disconnectDefault } = this.#options;
    return { offlineMode, disconnectDefault, backupLoaded: this.#backupLoaded };
  }

  async #take(event: ConnectivityEvent): Promise<ConnectivityAnswer | undefined> {
    const before = this.#state;
    const { next, effects, answer } = connectivityTransition(before, event, this.#conditions);
    try {
      for (const effect of effects) await this.#do(effect);
    } catch (error) {
      // Restore the previous state, which has not been left.
      if (before === 'connected') this.#deps.follower.start();
      else await this.#deps.follower.stop();
      throw error;
    }
    this.#state = next;
    if (next !== before) this.#deps.log.info({ event, before, now: next }, 'server connectivity');
    return answer;
  }

  async #do(effect: ConnectivityEffect): Promise<void> {
    const { follower, backup, policy, log, held } = this.#deps;
    const { policyEnabled } = this.#options;
    switch (effect) {
      case 'warn_connecting':
        log.warn(
          { reason: this.#options.offlineMode ? (backup.state.error ?? 'there is no backup') : 'offline mode is off' },
          'the client was to start disconnected, but has no backup to serve: connecting to the server',
        );
        return;
      case 'start_following':
        return follower.start();
      case 'rehydrate':
        // Requested once the subscriptions exist, so that nothing is missed in between.
        if (policyEnabled) policy.wantComplete();
        return follower.start();
      case 'stop_following':
        return follower.stop();
      case 'save_backup':
        if ((await backup.save()) === 'nothing') {
          log.warn({}, 'disconnected before there was anything to back up: the backup of before stays');
        }
        return;
      case 'refetch':
        return this.#deps.refetch();
      case 'load_backup':
        if (held.isEmpty && this.#signal !== undefined) await this.#restore(this.#signal);
        return;
    }
  }

  async #restore(signal: AbortSignal): Promise<void> {
    const { backup, restore, log } = this.#deps;
    try {
      const restored = await restore(signal);
      if (restored === undefined) {
        log.info({}, 'there is no backup yet');
        return;
      }
      this.#backupLoaded = true;
      const { content, isWhole, isHeld } = restored;
      await backup.loaded(content, isWhole);
      log.info(
        {
          policy: content.policy?.hash ?? null,
          documents: content.documents.length,
          written: !isHeld,
          saved_at: content.createdMs > 0 ? new Date(content.createdMs).toISOString() : null,
        },
        'the engine serves the backup',
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof SyncError)) throw error;
      backup.refused(error.message);
      log.error(failureFields(error), 'the backup was refused');
    }
  }
}
