import { appliedUpTo, hasApplied, type Position } from '../../wire/session.js';
import { ALL_TOPICS } from '../../wire/topics.js';
import { byOurClock, type Clocked } from '../log/log-clock.js';
import type { LogEvents, LogRecord, LogTail, UpdateTopics } from '../log/update-log.js';
import { concerns, type PublishedTopics } from './known-client.js';

/** The part of a data update that determines the lag of clients. */
export interface RecentUpdate {
  readonly seq: number;
  /** When it was appended, in milliseconds since 1970 by our clock. */
  readonly timeMs: number;
  readonly topics: PublishedTopics;
}

export interface Lag {
  /** Updates of its topics that it has not applied. */
  readonly updates: number;
  /** Age of the oldest of them. */
  readonly seconds: number;
  /** True: the client is farther behind than {@link RecentUpdates} reaches. */
  readonly atLeast: boolean;
}

/** Maximum updates in memory. */
const LIMIT = 10_000;
/** Topics of all of them together. */
const MOST_TOPICS = 500_000;
/** Counted at most: thousands of clients that are far behind must not hold up the server. */
const MOST_COUNTED = 1000;

type FollowedLog = Pick<LogTail, 'head' | 'clockAheadMs'> & LogEvents;

/** The last data updates of the log, from which the lag of a client is computed. */
export class RecentUpdates {
  readonly #limit: number;
  #updates: RecentUpdate[] = [];
  #topics = 0;
  /** Every update after this one is here. */
  #after: number;
  #unsubscribe: readonly (() => void)[] = [];

  /** Updates up to `after` are not added. */
  constructor(after: number, limit = LIMIT) {
    this.#after = after;
    this.#limit = limit;
  }

  /** Takes in what is appended to the log from now on, until {@link close}. */
  follow(log: FollowedLog): this {
    this.#unsubscribe = [
      log.onRecord((record) => this.add(updateOf(log, record))),
      log.onSkipped(() => this.skipTo(log.head)),
    ];
    return this;
  }

  /** Stops following the log. */
  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
  }

  /** Adds the next update of the log; ignores repetitions. */
  add(update: RecentUpdate): void {
    if (update.seq <= (this.#updates.at(-1)?.seq ?? this.#after)) return;
    this.#updates.push(update);
    this.#topics += topicsIn(update);
    // Trims in batches, so that the array is not copied for each update.
    if (this.#topics > MOST_TOPICS) this.#keep(Math.max(1, this.#updates.length >> 1));
    if (this.#updates.length >= this.#limit * 1.5) this.#keep(this.#limit);
  }

  #keep(count: number): void {
    const last = this.#updates.at(-1)?.seq ?? this.#after;
    this.#updates = count === 0 ? [] : this.#updates.slice(-count);
    this.#topics = this.#updates.reduce((sum, update) => sum + topicsIn(update), 0);
    this.#after = (this.#updates[0]?.seq ?? last + 1) - 1;
  }

  /** Forgets all up to `after`: updates were skipped before they were read. */
  skipTo(after: number): void {
    this.#updates = [];
    this.#topics = 0;
    this.#after = after;
  }

  /** The last update on any of these topics. `heads`: last seq of each of them. */
  newestOn(topics: readonly string[], heads: Readonly<Record<string, number>>): number {
    if (topics.includes(ALL_TOPICS)) return this.#updates.at(-1)?.seq ?? this.#after;
    return topics.reduce((newest, topic) => Math.max(newest, heads[topic] ?? 0), 0);
  }

  /**
   * How far a client is behind. Position null: it holds nothing. `heads`: last seq of each topic.
   */
  lag(
    position: Position | null,
    topics: readonly string[],
    heads: Readonly<Record<string, number>>,
    nowMs: number,
  ): Lag {
    const from = position === null ? 0 : appliedUpTo(position);
    const newest = this.newestOn(topics, heads);
    if (newest <= from) return { updates: 0, seconds: 0, atLeast: false };
    const age = (timeMs: number | undefined): number => (timeMs === undefined ? 0 : Math.max(0, nowMs - timeMs) / 1000);
    let updates = 0;
    let oldestMs: number | undefined;
    for (const update of this.between(from, Number.POSITIVE_INFINITY)) {
      if (!concerns(topics, update.topics) || (position !== null && hasApplied(position, update.seq))) continue;
      if (++updates > MOST_COUNTED) return { updates: MOST_COUNTED, seconds: age(oldestMs), atLeast: true };
      oldestMs ??= update.timeMs;
    }
    const isFarther = from < this.#after;
    // One that is open and older than all that is here may be of its topics.
    const isOpen = (seq: number): boolean => seq <= this.#after;
    const hasNewest = position !== null && hasApplied(position, newest) && !position.unresolved.some(isOpen);
    if (updates === 0 && isFarther && !hasNewest) {
      return { updates: 1, seconds: age(this.#updates[0]?.timeMs), atLeast: true };
    }
    return { updates, seconds: age(oldestMs), atLeast: updates > 0 && isFarther };
  }

  /** For each topic, the last update that a client has applied, and how many it has not. */
  standings(position: Position, topics: ReadonlySet<string>): Map<string, { held: number | null; behind: number }> {
    const standings = new Map([...topics].map((topic) => [topic, { held: null as number | null, behind: 0 }]));
    for (const update of this.#updates) {
      const { topics: its } = update;
      const shared = 'has' in its ? [...standings.keys()].filter((topic) => its.has(topic)) : its;
      const own = shared.flatMap((topic) => standings.get(topic) ?? []);
      if (own.length === 0) continue;
      const isApplied = hasApplied(position, update.seq);
      for (const standing of own) {
        if (isApplied) standing.held = update.seq;
        else standing.behind++;
      }
    }
    return standings;
  }

  /** Updates after `from`, up to `through`, in order. */
  *between(from: number, through: number): Generator<RecentUpdate> {
    let low = 0;
    let high = this.#updates.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#updates[middle]?.seq ?? 0) <= from) low = middle + 1;
      else high = middle;
    }
    for (let index = low; index < this.#updates.length; index++) {
      const update = this.#updates[index];
      if (update === undefined || update.seq > through) return;
      yield update;
    }
  }
}

function topicsIn({ topics }: RecentUpdate): number {
  return 'size' in topics ? topics.size : topics.length;
}

/** Updates to read at the start, for clients that reconnect after a restart of the server. */
const READ_AT_START = 1000;
/** Characters of rows that are read at the start at most. */
const CHARS_AT_START = 64 * 1024 * 1024;

/** Up to so many topics are kept as a list, which takes less room than a set. */
const FEW_TOPICS = 8;

export function updateOf(
  log: Clocked,
  { seq, timeMs, entries }: Pick<LogRecord, 'seq' | 'timeMs' | 'entries'>,
): RecentUpdate {
  return byTopics(log, { seq, timeMs, topics: new Set(entries.flatMap((entry) => entry.topics)) });
}

function byTopics(log: Clocked, { seq, timeMs, topics }: UpdateTopics): RecentUpdate {
  return { seq, timeMs: byOurClock(log, timeMs), topics: topics.size > FEW_TOPICS ? topics : [...topics] };
}

/**
 * Reads the last updates of a log and follows it: no update falls between the two. Large ones are
 * read only where the log did not load them just now.
 */
export async function recentUpdates(log: LogTail & LogEvents): Promise<RecentUpdates> {
  const after = Math.max(0, log.head - READ_AT_START);
  const recent = new RecentUpdates(after);
  const large = log.takeLargeLoaded?.() ?? new Map<number, UpdateTopics>();
  const nextLarge = [...large.keys()];
  let chars = 0;
  for (let at = after; at < log.head; ) {
    const known = large.get(at + 1);
    if (known !== undefined) {
      recent.add(byTopics(log, known));
      at++;
      continue;
    }
    while (nextLarge.length > 0 && (nextLarge[0] ?? 0) <= at) nextLarge.shift();
    const page = await log.tail(at, Math.min(READ_AT_START, (nextLarge[0] ?? Number.POSITIVE_INFINITY) - 1 - at));
    // The log may not retain them any more, or they are large: the lag of a client is then a lower
    // bound.
    if (page === undefined || chars > CHARS_AT_START) return new RecentUpdates(log.head).follow(log);
    for (const record of page.records) recent.add(updateOf(log, record));
    at = page.through;
    chars += page.chars ?? 0;
  }
  // In the same turn as the last look at the head.
  return recent.follow(log);
}
