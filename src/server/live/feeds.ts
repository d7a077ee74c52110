import type { Limits } from '../../auth/caller.js';
import { failureFields, SyncError } from '../../lib/errors.js';
import { isAbort, sleep, Wakeup } from '../../lib/run/async.js';
import { outlineOf } from '../log/large-rows.js';
import type { AuditRecord, LogRecord } from '../log/update-log.js';
import { type FeedReader, FleetFeed } from './feed.js';
import type { FeedEvent } from './feed-event.js';
import { type FleetSources, gather } from './gather.js';
import { Slices } from './slices.js';

/** When the fleet is looked at, while somebody watches. */
export interface FleetTimes {
  /** Shortest time between two looks. Default 250 ms. */
  readonly betweenMs: number;
  /** Longest time between two looks: some changes have no event. Default 1 s. */
  readonly idleMs: number;
  /** How long what was computed is kept for readers that come back. Default 1 min. */
  readonly keepMs: number;
}

/** Most feeds of limited tokens, each with its own limits. */
const MAX_LIMITED = 50;
/** Most updates that wait for a look; of more, feeds read the log. */
const MAX_RECORDS = 1000;
/** Topics of the entries of such updates. */
const MAX_TOPICS = 100_000;
/** The newest commits, of which the repository is asked. */
const COMMITS = 50;
/** Looks take at most this share of the time of the program. */
const SHARE = 0.2;
/** Longest time between two looks that are expensive. */
const MAX_BETWEEN_MS = 2000;
const TIMES: FleetTimes = { betweenMs: 250, idleMs: 1000, keepMs: 60_000 };
const RETRY_SECONDS = 10;

interface KeptFeed {
  readonly feed: FleetFeed;
  readonly isLimited: boolean;
  /** Set while nobody watches it. */
  forget?: NodeJS.Timeout | undefined;
}

/** A reader that is told of the fleet. */
export interface FleetReader {
  readonly end: () => void;
  /** All that is known, for a reader that left out events. Call it after a first event. */
  readonly snapshot: () => FeedEvent;
}

/** The feeds of the fleet, one for each set of limits, computed while somebody watches. */
export class FleetFeeds {
  readonly #sources: FleetSources;
  readonly #times: FleetTimes;
  readonly #feeds = new Map<string, KeptFeed>();
  readonly #closing = new AbortController();
  readonly #changed = new Wakeup();
  #looking: Promise<void> | undefined;
  #reading: Promise<void> | undefined;
  /** Topics with new updates since the last look; undefined: not known. */
  #touched: Set<string> | undefined;
  /** New updates since the last look. */
  #records: AuditRecord[] = [];
  /** Topics of their entries. */
  #topics = 0;

  constructor(sources: FleetSources, times: Partial<FleetTimes> = {}) {
    this.#sources = sources;
    this.#times = { ...TIMES, ...times };
  }

  /**
   * Tells a reader of the fleet from now on: what it has missed since `lastEventId`, or a snapshot,
   * then each change. Throws `too_many_watchers`.
   */
  watch(reader: FeedReader, { limits, lastEventId }: { limits: Limits; lastEventId: string | undefined }): FleetReader {
    const key = keyOf(limits);
    const kept = this.#feeds.get(key) ?? this.#open(key, limits);
    clearTimeout(kept.forget);
    kept.forget = undefined;
    const leave = kept.feed.watch(reader, lastEventId);
    this.#changed.set();
    this.#looking ??= this.#lookWhileWatched();
    const end = (): void => {
      leave();
      if (kept.feed.isWatched || kept.forget !== undefined) return;
      kept.feed.rest();
      kept.forget = setTimeout(() => this.#feeds.delete(key), this.#times.keepMs).unref();
      this.#changed.set();
    };
    return { end, snapshot: () => kept.feed.snapshot() };
  }

  /** Ends the looks. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const { forget } of this.#feeds.values()) clearTimeout(forget);
    this.#feeds.clear();
    await Promise.all([this.#looking, this.#reading]);
  }

  #open(key: string, limits: Limits): KeptFeed {
    const { isLimited } = limits;
    const limited = [...this.#feeds].filter(([, kept]) => kept.isLimited);
    if (isLimited && limited.length >= MAX_LIMITED) {
      const [idle] = limited.find(([, { feed }]) => !feed.isWatched) ?? [];
      if (idle === undefined) {
        const text = `tokens with ${MAX_LIMITED} different limits watch the fleet already`;
        throw new SyncError('too_many_watchers', text, { retryAfterSeconds: RETRY_SECONDS, retryable: true });
      }
      clearTimeout(this.#feeds.get(idle)?.forget);
      this.#feeds.delete(idle);
    }
    const kept: KeptFeed = { feed: new FleetFeed(limits, this.#sources), isLimited };
    this.#feeds.set(key, kept);
    return kept;
  }

  #watched(): FleetFeed[] {
    return [...this.#feeds.values()].flatMap(({ feed }) => (feed.isWatched ? [feed] : []));
  }

  /** Looks at the fleet until nobody watches. Never rejects. */
  async #lookWhileWatched(): Promise<void> {
    const { signal } = this.#closing;
    const { registry, log, logger } = this.#sources;
    const changed = (): void => this.#changed.set();
    const unsubscribe = [
      registry.watch(changed, changed),
      log.onRecord((record) => this.#recorded(record)),
      log.onPolicy(changed),
      log.onSkipped(() => {
        // Nobody knows which updates: the feeds read the log.
        for (const feed of this.#watched()) feed.rest();
        changed();
      }),
    ];
    try {
      this.#touched = undefined;
      this.#records = [];
      while (this.#watched().length > 0) {
        const begunMs = performance.now();
        const spentMs = await this.#look();
        const tookMs = performance.now() - begunMs;
        const { betweenMs, idleMs } = this.#times;
        await sleep(Math.max(betweenMs - tookMs, Math.min(spentMs / SHARE - tookMs, MAX_BETWEEN_MS), 0), signal);
        await this.#changed.wait(signal, idleMs);
      }
    } catch (error) {
      if (!isAbort(error, signal)) logger.error(failureFields(error, 'stack'), 'the fleet cannot be watched');
    } finally {
      for (const end of unsubscribe) end();
      this.#looking = undefined; // in the same turn as the last look at who watches
    }
  }

  #recorded(record: LogRecord): void {
    for (const { topics } of record.entries) {
      for (const topic of topics) this.#touched?.add(topic);
      this.#topics += topics.length;
    }
    // Whoever delivers updates does not wait for what each feed makes of them.
    this.#records.push(outlineOf(record));
    if (this.#records.length > MAX_RECORDS || this.#topics > MAX_TOPICS) {
      this.#records = [];
      this.#topics = 0;
      this.#touched = undefined;
      for (const feed of this.#watched()) feed.rest();
    }
    this.#changed.set();
  }

  /** One look for all who watch. Returns how long it took, without what ran in between. */
  async #look(): Promise<number> {
    const slices = new Slices();
    const touched = this.#touched;
    this.#touched = new Set();
    const records = this.#records;
    this.#records = [];
    this.#topics = 0;
    // Rows are as of now, or newer: what comes meanwhile counts from the next look on.
    const heads = new Map(this.#watched().map((feed) => [feed, feed.dataHead()]));
    try {
      const gathered = await gather(this.#sources, slices);
      const newest = gathered.commits.slice(0, COMMITS).map(({ key }) => key);
      // What the repository says of them comes with a later look.
      this.#reading = this.#sources.abouts.read(newest)?.then(() => this.#changed.set());
      for (const feed of this.#watched()) {
        for (const record of records) {
          feed.recorded(record);
          if (slices.isDue) await slices.pause();
        }
        // One that fails begins anew at the next look; the others go on.
        const dataHead = heads.get(feed) ?? feed.dataHead();
        await feed.update({ gathered, touched, dataHead }, slices).catch((error: unknown) => this.#failed(error));
      }
    } catch (error) {
      for (const feed of this.#watched()) feed.rest();
      this.#failed(error);
    }
    return slices.spentMs;
  }

  #failed(error: unknown): void {
    this.#sources.logger.warn(failureFields(error, 'stack'), 'a look at the fleet failed and is repeated');
  }
}

/** Callers with the same key see the same. */
function keyOf({ permittedTopics, permittedPaths, isLimited }: Limits): string {
  if (!isLimited) return '';
  const sorted = (texts: Iterable<string> | undefined): string[] | null =>
    texts === undefined ? null : [...texts].sort();
  return JSON.stringify([sorted(permittedTopics), sorted(permittedPaths?.map((path) => JSON.stringify(path)))]);
}
