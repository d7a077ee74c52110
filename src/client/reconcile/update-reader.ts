import type { BackoffOptions } from '../../lib/async.js';
import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { RetryLoop } from '../../lib/retry-loop.js';
import type { UpdatesPage, UpdatesQuery } from '../../wire/updates.js';
import { pullPages } from '../position/pull.js';
import type { DataEvents } from '../status/data-events.js';
import type { DesiredEntries } from './desired-entries.js';
import type { Load } from './load.js';
import type { LogCursor } from './log-cursor.js';
import type { ServerSession } from './server-session.js';
import type { UpdateIntake } from './update-intake.js';

/** What {@link UpdateReader} works with. */
export interface UpdateReaderDeps {
  /** Undefined: there is no way to ask for updates apart. */
  readonly fetchUpdates: ((query: UpdatesQuery, signal: AbortSignal) => Promise<UpdatesPage>) | undefined;
  readonly topics: ReadonlySet<string>;
  readonly session: ServerSession;
  readonly state: LogCursor;
  readonly entries: DesiredEntries;
  readonly intake: UpdateIntake;
  readonly load: Load;
  /** A part of the load was read. */
  readonly onLoaded: (entries: number) => void;
  readonly events: DataEvents;
  readonly log: Logger;
}

/** Catches up with the updates of a log by asking for what comes after the position; see {@link pullPages}. */
export class UpdateReader {
  readonly loop: RetryLoop;
  readonly #deps: UpdateReaderDeps;

  constructor(options: { backoff: BackoffOptions }, deps: UpdateReaderDeps) {
    this.#deps = deps;
    this.loop = new RetryLoop('catching up with data updates', options.backoff, deps.log, async (signal) => {
      try {
        await this.#pull(signal);
      } catch (error) {
        if (!(error instanceof SyncError && error.code === 'not_enabled')) throw error;
        this.#retainsNothing();
      }
    });
  }

  async #pull(signal: AbortSignal): Promise<void> {
    const { fetchUpdates, session, state, load, events, log } = this.#deps;
    if (fetchUpdates === undefined || !session.isApart) return;
    await session.turn(signal);
    const hadFailed = this.loop.error !== undefined;
    const { pullAfter: after, epoch } = state.position;
    const { rewinds } = state;
    const ids = new Set<string>();
    let [updates, loaded, isFold, isFromStart] = [0, 0, false, after === 0];
    const start = { epoch, after, topics: [...this.#deps.topics] };
    for await (const { page, isAnew, isLast } of pullPages(fetchUpdates, start, signal)) {
      if (isAnew && rewinds === state.rewinds) {
        isFromStart = true;
        ids.clear();
        if (page.epoch !== state.epoch) state.enter(page.epoch);
      } else if (page.epoch !== state.epoch || rewinds !== state.rewinds) {
        // Somebody else said meanwhile that there is another log by now.
        this.loop.request();
        return;
      }
      if (!isFromStart && state.position.isBehind(page.heads) && state.position.pullAfter < after) {
        // A later notice on another topic had been taken for all there was: more is missing than was asked for.
        this.loop.request();
        return;
      }
      if (page.from === 'fold') isFold = true;
      loaded += this.#take(page, ids);
      updates += page.updates.length;
      state.position.pulled(isLast ? page.head : (page.updates.at(-1)?.seq ?? 0), isLast);
      if (isLast) state.fold = isFold && isFromStart && load.isOpen ? { ids, head: page.head } : undefined;
      events.emit({ kind: 'position' });
    }
    state.isRead = true;
    if (updates > 0) log.info({ updates, after, from: isFold ? 'fold' : 'tail' }, 'caught up with data updates');
    if (hadFailed && !load.isOpen)
      events.emit({ kind: 'config_read', entries: Math.max(1, this.#deps.entries.table.size) });
    this.#deps.onLoaded(loaded);
    // Something arrived meanwhile before which an update is missing; where reading brings nothing, a heartbeat asks again.
    if (state.position.hasGap && state.position.through > after) this.loop.request();
  }

  /**
   * Who begins with nothing loads what there is, whatever form it comes in; who returns hears of what it missed. `ids` is
   * given those of all entries: pages of one pull may have both forms. Answers how many were loaded.
   */
  #take(page: UpdatesPage, ids: Set<string>): number {
    const { state, intake } = this.#deps;
    const isLoad = !state.isRead || page.from === 'fold';
    let loaded = 0;
    for (const update of page.updates) {
      const taken = isLoad ? intake.takeLoaded(update) : intake.takePaged(update);
      for (const id of taken) ids.add(id);
      if (isLoad) loaded += taken.length;
    }
    return loaded;
  }

  /** SYNC_DATA_UPDATES_RETAINED is false at the server: updates are placed in its log, but what was missed is gone. */
  #retainsNothing(): void {
    const { session, state } = this.#deps;
    const { epoch, head = 0 } = session.start ?? {};
    if (epoch !== undefined && epoch !== state.epoch) state.enter(epoch);
    state.position.skipped(head);
    this.#deps.onLoaded(0);
  }
}
