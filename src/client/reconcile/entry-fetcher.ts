import { type BackoffOptions, backoffMs, sleep } from '../../lib/async.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { TaskSet } from '../../lib/task-set.js';
import { docPathText } from '../../wire/doc-path.js';
import type { Body } from '../../wire/json-node.js';
import type { Rank } from '../desired/layers.js';
import { bodyOfText } from '../desired/text-body.js';
import type { Fetcher } from '../fetch/providers.js';
import type { OnLarge } from '../fetch/spool.js';
import type { Applier } from './applier.js';
import { isMoved, type KnownEntry, stopReads } from './entry.js';
import type { EntryTable } from './entry-table.js';

/** A failure that does not pass by itself starts with the wait of this many tries later. */
const LASTING_HEAD_START = 4;

/** How the fetcher of entries goes about it. */
export interface EntryFetcherOptions {
  readonly backoff: BackoffOptions;
  /** Shortest time between two reads of a polled source, whatever its entry asks for. */
  readonly pollMinMs: number;
}

/** A read that is under way. */
interface Reading {
  /** What is asked for. */
  readonly request: string;
  /** Asked for again meanwhile. */
  isStale: boolean;
}

/** What the fetcher of entries works with. */
export interface EntryFetcherDeps {
  readonly applier: Applier;
  readonly table: EntryTable;
  readonly tasks: TaskSet;
  readonly fetch: Fetcher['fetch'];
  /** The content of an entry is here; undefined for DELETE. */
  readonly onArrived: (entry: KnownEntry, body: Body | undefined) => void;
  readonly log: Logger;
}

/** What a base entry had when it was fetched last, and its place then. */
export interface SeenContent {
  readonly hash: string;
  readonly rank: Rank;
}

/** Gets the content of each entry on its own: at once when it is inline, else by asking its source until it answers. */
export class EntryFetcher {
  readonly #backoff: BackoffOptions;
  readonly #pollMinMs: number;
  readonly #deps: EntryFetcherDeps;
  readonly #reading = new WeakMap<KnownEntry, Reading>();
  /** When the last poll of an entry was due, or its first read; its interval counts from there. */
  readonly #polledAt = new WeakMap<KnownEntry, number>();
  /** Until when a source has asked to be left alone. */
  readonly #notBefore = new WeakMap<KnownEntry, number>();
  /** Entries whose source is asked for something newer than what is held: see {@link revalidate}. */
  readonly #quiet = new WeakSet<KnownEntry>();
  /** What was asked for when the validators of an entry were sent: with other headers it may be another document. */
  readonly #validFor = new WeakMap<KnownEntry, string>();
  /** What each base entry had when it was fetched last, and its place then; also of entries superseded since. */
  readonly #seen = new Map<string, SeenContent>();

  constructor(options: EntryFetcherOptions, deps: EntryFetcherDeps) {
    this.#backoff = options.backoff;
    this.#pollMinMs = options.pollMinMs;
    this.#deps = deps;
  }

  /** What each base entry had when it was fetched last, by id; also of entries superseded since. */
  get seen(): ReadonlyMap<string, SeenContent> {
    return this.#seen;
  }

  /** Takes over what another life of this client had {@link seen}. */
  adopt(seen: ReadonlyMap<string, SeenContent>): void {
    for (const [id, content] of seen) this.#seen.set(id, content);
  }

  /**
   * Starts to get the content. A read of the same entry that is under way goes on and is followed by another one: else a
   * source that is slow would never be read while connections come and go. A read of something else ends.
   */
  obtain(entry: KnownEntry): void {
    const { data, save_method: method } = entry.entry;
    const reading = this.#reading.get(entry);
    if (reading !== undefined && entry.reads !== undefined && reading.request === requestText(entry)) {
      reading.isStale = true;
      return;
    }
    stopReads(entry);
    if (method === 'DELETE') this.#deps.onArrived(entry, undefined);
    else if (data !== null && data !== undefined) this.#deps.onArrived(entry, bodyOfText(data.text));
    else this.#deps.tasks.add(this.#follow(entry));
  }

  /**
   * Asks the source of an update once more, for something newer than what is held. That the update was applied stays true while
   * the source cannot tell, as where its address was good for one read: it is no failure then.
   */
  revalidate(entry: KnownEntry): void {
    if (!this.#isHeld(entry)) return;
    this.obtain(entry);
    this.#quiet.add(entry);
  }

  async #follow(entry: KnownEntry): Promise<void> {
    const reads = new AbortController();
    entry.reads = reads;
    try {
      await this.#read(entry, reads.signal);
    } finally {
      if (entry.reads === reads) entry.reads = undefined;
    }
  }

  /** Fetches until it succeeds, and then again at the entry's interval, if it has one. */
  async #read(entry: KnownEntry, signal: AbortSignal): Promise<void> {
    let waitMs: number | undefined = (this.#notBefore.get(entry) ?? 0) - performance.now();
    let isPoll = false;
    for (let attempt = 1; waitMs !== undefined; attempt++) {
      try {
        // What is due later is read then, which does no harm.
        if (waitMs > 0) await sleep(waitMs, signal);
      } catch {
        return; // The entry was dropped or the client stops: nobody waits for it any more.
      }
      const reading: Reading = { request: requestText(entry), isStale: false };
      this.#reading.set(entry, reading);
      try {
        await this.#fetchOnce(entry, signal);
        if (signal.aborted) return;
        this.#quiet.delete(entry);
        attempt = 0;
        waitMs = reading.isStale ? 0 : this.#untilPoll(entry, isPoll);
        isPoll ||= !reading.isStale;
      } catch (error) {
        if (signal.aborted) return;
        waitMs = this.#failed(entry, error, attempt);
      } finally {
        if (this.#reading.get(entry) === reading) this.#reading.delete(entry);
      }
    }
  }

  /**
   * Time until the next poll after a read; undefined: there is none. Reads in between, as after a reconnect, leave the
   * rhythm alone (opal-protocol P10.6). `isPoll`: this read was a poll; its timer may have come before its time.
   */
  #untilPoll(entry: KnownEntry, isPoll: boolean): number | undefined {
    const seconds = entry.entry.periodic_update_interval;
    if (seconds === null || seconds === undefined) return undefined;
    const intervalMs = Math.max(seconds * 1000, this.#pollMinMs);
    const now = performance.now();
    let polledAt = this.#polledAt.get(entry) ?? now;
    if (isPoll || polledAt + intervalMs <= now) polledAt = now;
    this.#polledAt.set(entry, polledAt);
    return polledAt + intervalMs - now;
  }

  async #fetchOnce(entry: KnownEntry, signal: AbortSignal): Promise<void> {
    const { url, config } = entry.entry;
    const asked = requestText(entry);
    const isValid = this.#isHeld(entry) && (this.#validFor.get(entry) ?? asked) === asked;
    const previous = isValid && entry.fetched !== undefined ? { previous: entry.fetched } : {};
    const result = await this.#deps.fetch({ url, config: config ?? null, ...previous }, signal, this.#ahead(entry));
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
    this.#validFor.set(entry, asked);
    if (same) {
      this.#unchanged(entry);
      return;
    }
    if (entry.later !== undefined) entry.rank = entry.later;
    entry.later = undefined;
    if (entry.origin === 'base') this.#seen.set(entry.id, { hash: body.hash, rank: entry.rank });
    this.#deps.onArrived(entry, body);
  }

  /**
   * What to do with a large document while it arrives: the engine takes it beforehand. Only the first read of an entry is
   * known to bring something new, as when an update was published; most others find what is there already.
   */
  #ahead({ fetched, entry, path }: KnownEntry): OnLarge | undefined {
    if (fetched !== undefined || entry.save_method !== 'PUT' || path.length === 0) return undefined;
    return (arriving) => this.#deps.applier.prepareUpload(path, arriving);
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
    if (past?.hash !== hash || isMoved(entry.entry, past.rank, entry.later ?? entry.rank)) return false;
    return this.#deps.table.covered(entry.path, past.rank);
  }

  /** What was fetched last is still the newest, and keeps its place. Only the writer moves on what waits or is withheld. */
  #unchanged(entry: KnownEntry): void {
    entry.later = undefined;
    if (entry.state.kind === 'fetching' || entry.state.kind === 'applied') {
      this.#deps.table.settle(entry, { kind: 'applied' });
    }
  }

  /** Records a failed attempt and answers the time until the next one; undefined where another one would be the same. */
  #failed(entry: KnownEntry, error: unknown, attempt: number): number | undefined {
    if (this.#quiet.has(entry) && this.#isHeld(entry)) return this.#failedQuietly(entry, error, attempt);
    const { state } = entry;
    if (state.kind === 'ready') this.#deps.table.settle(entry, { ...state, error: errorText(error) });
    else if (state.kind !== 'blocked') this.#deps.table.settle(entry, { kind: 'fetching', error: errorText(error) });
    const path = docPathText(entry.path);
    if (isForGood(error)) {
      this.#deps.log.error({ path, ...failureFields(error) }, 'data source cannot be read as its entry is');
      return undefined;
    }
    const waitMs = this.#pause(entry, error, attempt);
    this.#deps.log[attempt <= 3 ? 'warn' : 'error'](
      { path, attempt, retry_in_ms: Math.round(waitMs), ...failureFields(error) },
      'data source failed, will try again',
    );
    return waitMs;
  }

  /** What is held stays; whether there is something newer is asked again while an answer may come. */
  #failedQuietly(entry: KnownEntry, error: unknown, attempt: number): number | undefined {
    const mayPass = !(error instanceof SyncError) || error.retryable;
    const waitMs = mayPass ? this.#pause(entry, error, attempt) : this.#untilPoll(entry, false);
    if (!mayPass) this.#quiet.delete(entry);
    this.#deps.log.info(
      { path: docPathText(entry.path), attempt, error: errorText(error) },
      'the source of an update does not say whether it has something newer: what is held stays',
    );
    return waitMs;
  }

  /** Time until the next attempt. */
  #pause(entry: KnownEntry, error: unknown, attempt: number): number {
    const floorMs = error instanceof SyncError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
    if (floorMs > 0) this.#notBefore.set(entry, performance.now() + floorMs);
    // What is wrong with the answer itself is seldom mended within a second; it is tried for ever all the same.
    const lasting = error instanceof SyncError && (!error.retryable || error.code === 'address_refused');
    return backoffMs(attempt + (lasting ? LASTING_HEAD_START : 0), this.#backoff, floorMs);
  }
}

/** True for a failure that stays for as long as entry and settings do. */
function isForGood(error: unknown): boolean {
  if (!(error instanceof SyncError)) return false;
  return error.code === 'fetch_config_invalid' || (error.code === 'address_refused' && !error.retryable);
}

/** What a read asks for. */
function requestText({ entry: { url, config } }: KnownEntry): string {
  return JSON.stringify([url, config ?? null]);
}
