import { errorText, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { type BackoffOptions, backoffMs, sleep } from '../../lib/loop.js';
import { docPathText } from '../../wire/doc-path.js';
import type { Rank } from '../desired/layers.js';
import { bodyOfText } from '../desired/text-body.js';
import type { Body } from '../engine/engine.js';
import type { FetchRequest, FetchResult } from '../fetch/http-fetch.js';
import type { Applier } from './applier.js';
import type { KnownEntry } from './entry.js';
import type { EntryTable } from './entry-table.js';
import type { TaskSet } from './task-set.js';

/** A failure that does not pass by itself starts with the wait of this many tries later. */
const LASTING_HEAD_START = 4;

/** What the fetcher of entries works with. */
export interface EntryFetcherDeps {
  readonly applier: Applier;
  readonly table: EntryTable;
  readonly tasks: TaskSet;
  readonly fetch: (request: FetchRequest, signal: AbortSignal) => Promise<FetchResult>;
  /** The content of an entry is here; undefined for DELETE. */
  readonly onArrived: (entry: KnownEntry, body: Body | undefined) => void;
  readonly log: Logger;
}

/** Gets the content of each entry on its own: at once when it is inline, else by asking its source until it answers. */
export class EntryFetcher {
  readonly #backoff: BackoffOptions;
  readonly #deps: EntryFetcherDeps;
  /** What each base entry had when it was fetched last, and its place then; also of entries superseded since. */
  readonly #seen = new Map<string, { hash: string; rank: Rank }>();

  constructor(options: { backoff: BackoffOptions }, deps: EntryFetcherDeps) {
    this.#backoff = options.backoff;
    this.#deps = deps;
  }

  /** Starts to get the content; a fetch of the same entry that is under way ends. */
  obtain(entry: KnownEntry): void {
    const { data, save_method: method } = entry.entry;
    entry.abort.abort();
    entry.abort = new AbortController();
    if (method === 'DELETE') this.#deps.onArrived(entry, undefined);
    else if (data !== null && data !== undefined) this.#deps.onArrived(entry, bodyOfText(data.text));
    else this.#deps.tasks.add(this.#follow(entry, entry.abort.signal));
  }

  /** Fetches until it succeeds, and then again at the entry's interval, if it has one. */
  async #follow(entry: KnownEntry, signal: AbortSignal): Promise<void> {
    for (let attempt = 1; !signal.aborted; attempt++) {
      let waitMs: number;
      try {
        await this.#fetchOnce(entry, signal);
        if (signal.aborted) return;
        attempt = 0;
        const interval = entry.entry.periodic_update_interval;
        if (interval === null || interval === undefined) return;
        waitMs = interval * 1000;
      } catch (error) {
        if (signal.aborted) return;
        waitMs = this.#failed(entry, error, attempt);
      }
      try {
        await sleep(waitMs, signal);
      } catch {
        return; // The entry was dropped or the client stops: nobody waits for it any more.
      }
    }
  }

  async #fetchOnce(entry: KnownEntry, signal: AbortSignal): Promise<void> {
    const { url, config } = entry.entry;
    const previous = this.#isHeld(entry) && entry.fetched !== undefined ? { previous: entry.fetched } : {};
    const result = await this.#deps.fetch({ url, config: config ?? null, ...previous }, signal);
    if (result.outcome === 'unchanged') {
      if (!signal.aborted) this.#unchanged(entry);
      return;
    }
    const { body, etag, lastModified } = result;
    const isWaiting = entry.state.kind === 'ready' || entry.state.kind === 'blocked';
    const same = entry.fetched?.hash === body.hash && (isWaiting || this.#isHeld(entry));
    const isSuperseded = this.#isSuperseded(entry, body.hash);
    if (same || isSuperseded || signal.aborted) await body.dispose();
    if (signal.aborted) return;
    if (isSuperseded) {
      this.#deps.table.forget(entry);
      return;
    }
    entry.fetched = {
      hash: body.hash,
      ...(etag === undefined ? {} : { etag }),
      ...(lastModified === undefined ? {} : { lastModified }),
    };
    if (same) {
      this.#unchanged(entry);
      return;
    }
    if (entry.later !== undefined) entry.rank = entry.later;
    entry.later = undefined;
    if (entry.origin === 'base') this.#seen.set(entry.id, { hash: body.hash, rank: entry.rank });
    this.#deps.onArrived(entry, body);
  }

  /** True when the engine holds exactly what was fetched last: it neither waits nor is withheld. */
  #isHeld(entry: KnownEntry): boolean {
    const layer = this.#deps.applier.layers.get(entry.id);
    if (layer === undefined || entry.state.kind === 'ready' || entry.state.kind === 'blocked') return false;
    return layer.content.kind !== 'put' || layer.content.body.hash === entry.fetched?.hash;
  }

  /**
   * True for a base entry that a later update replaced, while its source still has what it had before that update. A
   * reconnect reads all base entries again; that alone must not bring back what the update had replaced.
   */
  #isSuperseded(entry: KnownEntry, hash: string): boolean {
    const past = this.#seen.get(entry.id);
    return past?.hash === hash && this.#deps.table.covered(entry.path, past.rank);
  }

  /** What was fetched last is still the newest, and keeps its place. Only the writer moves on what waits or is withheld. */
  #unchanged(entry: KnownEntry): void {
    entry.later = undefined;
    if (entry.state.kind === 'fetching' || entry.state.kind === 'applied') {
      this.#deps.table.settle(entry, { kind: 'applied' });
    }
  }

  /** Records a failed attempt and answers the time until the next one. */
  #failed(entry: KnownEntry, error: unknown, attempt: number): number {
    const { state } = entry;
    if (state.kind === 'ready') this.#deps.table.settle(entry, { ...state, error: errorText(error) });
    else if (state.kind !== 'blocked') this.#deps.table.settle(entry, { kind: 'fetching', error: errorText(error) });
    const floorMs = error instanceof SyncError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
    // What is wrong with the answer itself is seldom mended within a second; it is tried for ever all the same.
    const lasting = error instanceof SyncError && !error.retryable;
    const waitMs = backoffMs(attempt + (lasting ? LASTING_HEAD_START : 0), this.#backoff, floorMs);
    this.#deps.log[attempt <= 3 ? 'warn' : 'error'](
      { path: docPathText(entry.path), attempt, retry_in_ms: Math.round(waitMs), error: errorText(error) },
      'data source failed, will try again',
    );
    return waitMs;
  }
}
