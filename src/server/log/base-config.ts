import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { PeerEntry } from '../../wire/data.js';
import { nextGeneration } from './generation.js';
import type { LogView } from './log-view.js';
import type { Retention } from './retention.js';

/** Each of the instances that start together may win once before this one. */
const ADOPT_ATTEMPTS = 20;

/** Writes the operator's base entries of this instance into the log (design D18). No append may run meanwhile. */
export class BaseConfig {
  readonly #exclusive: boolean;
  readonly #deps: { view: LogView; retention: Retention; log: Logger };
  /** Digest of the entries of this instance. */
  #given: string | undefined;

  constructor(
    { exclusive }: { readonly exclusive: boolean },
    deps: { view: LogView; retention: Retention; log: Logger },
  ) {
    this.#exclusive = exclusive;
    this.#deps = deps;
  }

  /** {@link UpdateLog.configDiffers}. */
  get differs(): boolean {
    return this.#given !== undefined && this.#given !== (this.#deps.view.state.generation?.generation ?? '');
  }

  /** Adopts the entries of this instance. Rejects like {@link UpdateLog.append}. */
  async adopt(entries: readonly PeerEntry[]): Promise<void> {
    const { view, retention, log } = this.#deps;
    for (let attempt = 1; ; attempt++) {
      const next = nextGeneration(entries, view.state.generation, view.state.fold, this.#exclusive);
      this.#given = next.generation;
      if (next.body === undefined) {
        if (this.differs) log.warn({}, 'the base data entries of a newer configuration are in use');
        return;
      }
      // Otherwise an update that a removed base entry superseded could come back after a crash.
      await retention.work();
      const lastSeq = view.state.generation?.seq ?? 0;
      try {
        await view.append([{ row: { kind: 'base', body: next.body } }], { kind: 'base', lastSeq });
        log.info({ ...next.changes, head: view.state.head }, 'base data entries changed');
        return;
      } catch (error) {
        const isBeaten = error instanceof SyncError && error.code === 'log_conflict' && attempt < ADOPT_ATTEMPTS;
        if (!isBeaten) throw error;
        await view.catchUp();
      }
    }
  }
}
