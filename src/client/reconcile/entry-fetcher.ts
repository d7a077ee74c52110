import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import { depthProblem } from '../../lib/json/json-check.js';
import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, backoffMs, sleep, type TaskSet } from '../../lib/run/async.js';
import { docPathText } from '../../wire/doc-path.js';
import { bodyOfText } from '../../wire/json-node.js';
import type { EntryEvent } from '../desired/entry-state.js';
import { type Entries, isMoved, isRead, type KnownEntry } from '../desired/entry-table.js';
import type { Rank } from '../desired/layers.js';
import type { Fetcher } from '../fetch/providers.js';
import type { OnLarge } from '../fetch/spool.js';
import type { Applier } from './applier.js';
import type { EntryTraces } from './entry-traces.js';

/** A failure that does not pass by itself begins with the backoff of this many attempts later. */
const LASTING_HEAD_START = 4;

/** How {@link EntryFetcher} reads sources. */
export interface EntryFetcherOptions {
  readonly backoff: BackoffOptions;
  /** Shortest time between two reads of a polled source, whatever its entry asks for. */
  readonly pollMinMs: number;
}

/** What is known of the source of an entry. */
interface Source {
  /** Stops its reads; undefined while there are none. */
  stop: AbortController | undefined;
  /** What the read under way asks for; undefined between two reads. */
  request: string | undefined;
  /** It was asked for again during that read. */
  isStale: boolean;
  /** When the last poll was due, or the first read; the interval counts from there. */
  polledAt: number | undefined;
  /** The source is not read before (`Retry-After`), of `performance.now()`. */
  notBefore: number;
  /** It is asked for something newer than what is held: see {@link EntryFetcher.revalidate}. */
  isQuiet: boolean;
  /**
   * What was asked for when its validators were sent: with other headers it may be another
   * document.
   */
  validFor: string | undefined;
}

/**
 * The reason of all stopped reads: making one for each costs as much as writing a small document.
 */
const NOT_DESIRED = new DOMException('the entry is not desired any more', 'AbortError');

/** What {@link EntryFetcher} works with. */
export interface EntryFetcherDeps {
  readonly applier: Applier;
  readonly table: Entries;
  readonly tasks: TaskSet;
  readonly fetch: Fetcher['fetch'];
  readonly traces?: EntryTraces | undefined;
  readonly apply: (entry: KnownEntry, event: EntryEvent) => void;
  readonly log: Logger;
}

/** What a base entry had when it was fetched last, and its place then. */
export interface SeenContent {
  readonly hash: string;
  readonly rank: Rank;
}

/** Base entries whose last content is remembered. */
const SEEN_KEPT = 100_000;

/**
 * Gets the content of each entry on its own: at once when it is inline, else by reading its source
 * until that succeeds.
 */
export class EntryFetcher {
  readonly #options: EntryFetcherOptions;
  readonly #deps: EntryFetcherDeps;
  readonly #sources = new WeakMap<KnownEntry, Source>();
  /**
   * What each base entry had when it was fetched last, and its place then; also of entries
   * superseded since.
   */
  readonly #seen = new Map<string, SeenContent>();

  constructor(options: EntryFetcherOptions, deps: EntryFetcherDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** What each base entry had when it was fetched last, by id; also of entries superseded since. */
  get seen(): ReadonlyMap<string, SeenContent> {
    return this.#seen;
  }

  /** Restores {@link seen} from a backup. */
  adopt(seen: ReadonlyMap<string, SeenContent>): void {
    for (const [id, content] of seen) this.#saw(id, content);
  }

  /**
   * Starts to get the content. A read of the same entry that is under way continues, and another
   * one follows it: else a slow source would never be read while connections come and go. A read of
   * something else is stopped.
   */
  fetch(entry: KnownEntry): void {
    const source = this.#sources.get(entry);
    if (source?.request !== undefined && source.request === requestText(entry)) {
      source.isStale = true;
      return;
    }
    this.stop(entry);
    if (isRead(entry.entry)) {
      this.#deps.tasks.add(this.#follow(entry));
      return;
    }
    const { data, save_method: method } = entry.entry;
    const tooDeep = method === 'PUT' && data ? depthProblem(data.text, entry.path.length) : undefined;
    if (tooDeep !== undefined) {
      this.#deps.apply(entry, { kind: 'fetch_failed', error: tooDeep });
      const error = new SyncError('fetch_not_json', tooDeep);
      this.#deps.log.error({ path: docPathText(entry.path), ...failureFields(error) }, 'inline data cannot be saved');
      return;
    }
    const body = method === 'DELETE' || !data ? undefined : bodyOfText(data.text);
    this.#deps.apply(entry, { kind: 'arrived', body, fetched: undefined });
  }

  /** True while the source of the entry is read, or waits to be. */
  isReading(entry: KnownEntry): boolean {
    return this.#sources.get(entry)?.stop !== undefined;
  }

  /** Stops reading the source of an entry. */
  stop(entry: KnownEntry): void {
    const source = this.#sources.get(entry);
    if (source === undefined) return;
    source.stop?.abort(NOT_DESIRED);
    source.stop = undefined;
    source.request = undefined;
  }

  /**
   * Asks the source of an update whether it has something newer than what the engine holds. A
   * failure does not count: the update stays applied, and its URL may have been good for one read.
   */
  revalidate(entry: KnownEntry): void {
    if (!this.#isHeld(entry)) return;
    this.fetch(entry);
    this.#sourceOf(entry).isQuiet = true;
  }

  #sourceOf(entry: KnownEntry): Source {
    const known = this.#sources.get(entry);
    if (known !== undefined) return known;
    const source: Source = {
      ...{ stop: undefined, request: undefined, polledAt: undefined, validFor: undefined },
      ...{ isStale: false, notBefore: 0, isQuiet: false },
    };
    this.#sources.set(entry, source);
    return source;
  }

  async #follow(entry: KnownEntry): Promise<void> {
    const source = this.#sourceOf(entry);
    const stop = new AbortController();
    source.stop = stop;
    try {
      await this.#read(entry, source, stop.signal);
    } finally {
      if (source.stop === stop) source.stop = undefined;
    }
  }

  /** Fetches until it succeeds, and then again at the entry's interval, if it has one. */
  async #read(entry: KnownEntry, source: Source, signal: AbortSignal): Promise<void> {
    let waitMs: number | undefined = source.notBefore - performance.now();
    let isPoll = false;
    for (let attempt = 1; waitMs !== undefined; attempt++) {
      try {
        if (waitMs > 0) await sleep(waitMs, signal);
      } catch {
        return; // The entry was dropped, or the client stops.
      }
      const request = requestText(entry);
      source.request = request;
      source.isStale = false;
      try {
        await this.#fetchOnce(entry, source, request, signal);
        if (signal.aborted) return;
        source.isQuiet = false;
        attempt = 0;
        waitMs = source.isStale ? 0 : this.#untilPoll(entry, source, isPoll);
        isPoll ||= !source.isStale;
      } catch (error) {
        if (signal.aborted) return;
        waitMs = this.#failed(entry, source, error, attempt);
      } finally {
        if (!signal.aborted) source.request = undefined;
      }
    }
  }

  /**
   * Time until the next poll after a read; undefined: there is none. Reads in between, as after a
   * reconnect, leave the rhythm alone (opal-protocol P10.6). `isPoll`: this read was a poll; its
   * timer may have come before its time.
   */
  #untilPoll({ entry }: KnownEntry, source: Source, isPoll: boolean): number | undefined {
    const seconds = entry.periodic_update_interval;
    if (seconds === null || seconds === undefined) return undefined;
    const intervalMs = Math.max(seconds * 1000, this.#options.pollMinMs);
    const now = performance.now();
    const { polledAt = now } = source;
    source.polledAt = isPoll || polledAt + intervalMs <= now ? now : polledAt;
    return source.polledAt + intervalMs - now;
  }

  async #fetchOnce(entry: KnownEntry, source: Source, request: string, signal: AbortSignal): Promise<void> {
    const { url, config, save_method: method } = entry.entry;
    const isPut = method === 'PUT'; // what a patch writes is checked where it is applied
    const { apply } = this.#deps;
    const isValid = this.#isHeld(entry) && (source.validFor ?? request) === request;
    const previous = isValid && entry.fetched !== undefined ? { previous: entry.fetched } : {};
    const { fetch, traces } = this.#deps;
    const read = (): ReturnType<typeof fetch> =>
      fetch({ url, config: config ?? null, ...previous }, signal, this.#ahead(entry), isPut ? entry.path.length : 0);
    const result = await (traces === undefined ? read() : traces.fetch(entry, read));
    if (result.outcome === 'unchanged') {
      if (!signal.aborted) apply(entry, { kind: 'unchanged', fetched: undefined });
      return;
    }
    const { body, etag, lastModified } = result;
    const isWaiting = entry.state.kind === 'ready' || entry.state.kind === 'blocked';
    const same = entry.fetched?.hash === body.hash && (isWaiting || this.#isHeld(entry));
    const isSuperseded = this.#isSuperseded(entry, body.hash);
    if (same || isSuperseded || signal.aborted) await body.dispose();
    if (signal.aborted) return;
    if (isSuperseded) {
      apply(entry, { kind: 'dropped' });
      return;
    }
    const fetched = { hash: body.hash, ...(etag && { etag }), ...(lastModified && { lastModified }) };
    source.validFor = request;
    apply(entry, same ? { kind: 'unchanged', fetched } : { kind: 'arrived', body, fetched });
    if (!same && entry.origin === 'base') this.#saw(entry.id, { hash: body.hash, rank: entry.rank });
  }

  /** Remembers the newest: a server may name others for ever. */
  #saw(id: string, content: SeenContent): void {
    this.#seen.delete(id);
    this.#seen.set(id, content);
    const [oldest] = this.#seen.keys();
    if (this.#seen.size > SEEN_KEPT && oldest !== undefined) this.#seen.delete(oldest);
  }

  /**
   * What to do with a large document while it arrives: the engine takes it beforehand. Only the
   * first read of an entry is known to bring something new, as when an update was published; most
   * others find what the engine has.
   */
  #ahead({ fetched, entry, path }: KnownEntry): OnLarge | undefined {
    if (fetched !== undefined || entry.save_method !== 'PUT' || path.length === 0) return undefined;
    return (arriving) => this.#deps.applier.prepareUpload(path, arriving);
  }

  /** True when the engine holds exactly what was fetched last: it neither waits nor is withheld. */
  #isHeld(entry: KnownEntry): boolean {
    const layer = this.#deps.applier.held.layers.get(entry.id);
    if (layer === undefined || entry.state.kind === 'ready' || entry.state.kind === 'blocked') return false;
    return layer.content.kind !== 'put' || layer.content.body.hash === entry.fetched?.hash;
  }

  /**
   * True for a base entry that a later update replaced, while its source still has what it had
   * before that update. A reconnect reads all base entries again; that alone must not bring back
   * what the update had replaced.
   */
  #isSuperseded(entry: KnownEntry, hash: string): boolean {
    const past = this.#seen.get(entry.id);
    if (past?.hash !== hash || isMoved(entry.entry, past.rank, entry.nextRank ?? entry.rank)) return false;
    return this.#deps.table.covered(entry.path, past.rank);
  }

  /**
   * Records a failed attempt and returns the time until the next one; undefined where another one
   * would be the same.
   */
  #failed(entry: KnownEntry, source: Source, error: unknown, attempt: number): number | undefined {
    if (source.isQuiet && this.#isHeld(entry)) return this.#failedQuietly(entry, source, error, attempt);
    this.#deps.apply(entry, { kind: 'fetch_failed', error: errorText(error) });
    const path = docPathText(entry.path);
    if (isForGood(error)) {
      this.#deps.log.error({ path, ...failureFields(error) }, 'data source cannot be read: its entry is invalid');
      return undefined;
    }
    const waitMs = this.#pause(source, error, attempt);
    this.#deps.log[attempt <= 3 ? 'warn' : 'error'](
      { path, attempt, retry_in_ms: Math.round(waitMs), ...failureFields(error) },
      'data source failed, will try again',
    );
    return waitMs;
  }

  /** What the engine holds stays; the source is asked again unless the failure lasts. */
  #failedQuietly(entry: KnownEntry, source: Source, error: unknown, attempt: number): number | undefined {
    const mayPass = !(error instanceof SyncError) || error.retryable;
    const waitMs = mayPass ? this.#pause(source, error, attempt) : this.#untilPoll(entry, source, false);
    if (!mayPass) source.isQuiet = false;
    this.#deps.log.info(
      { path: docPathText(entry.path), attempt, error: errorText(error) },
      'the source of an update cannot be asked for something newer: what is applied stays',
    );
    return waitMs;
  }

  /** Time until the next attempt. */
  #pause(source: Source, error: unknown, attempt: number): number {
    const floorMs = error instanceof SyncError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
    if (floorMs > 0) source.notBefore = performance.now() + floorMs;
    // A wrong response (404, not JSON) is seldom corrected within a second; it is retried for ever
    // all the same.
    const lasting = error instanceof SyncError && (!error.retryable || error.code === 'address_refused');
    return backoffMs(attempt + (lasting ? LASTING_HEAD_START : 0), this.#options.backoff, floorMs);
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
