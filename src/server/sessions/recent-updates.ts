import { hasApplied, type Position } from '../../wire/session.js';
import { ALL_TOPICS } from '../../wire/topics.js';
import { byOurClock } from '../log/log-clock.js';
import type { LogRecord, UpdateLog } from '../log/update-log.js';
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
/** Most updates that a client counts as behind: thousands of clients that are far behind must not hold up a server that looks at them. */
const MOST_COUNTED = 1000;

/** The last data updates of the log, from which the lag of a client is computed. */
export class RecentUpdates {
  readonly #limit: number;
  #updates: RecentUpdate[] = [];
  #topics = 0;
  /** Every update after this one is here. */
  #after: number;

  /** Updates up to `after` are not added. */
  constructor(after: number, limit = LIMIT) {
    this.#after = after;
    this.#limit = limit;
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

  /** Returns how far a client with these topics is behind. Position null: it holds nothing. `heads`: last seq of each topic. */
  lag(
    position: Position | null,
    topics: readonly string[],
    heads: Readonly<Record<string, number>>,
    nowMs: number,
  ): Lag {
    const through = position?.applied_through ?? 0;
    const from = Math.min(through, ...(position?.unresolved ?? []).map((seq) => seq - 1));
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

  /** How a client stands to each of these topics: the last update that it has applied, and how many it has not. */
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
  log: Pick<UpdateLog, 'clockAheadMs'>,
  { seq, timeMs, entries }: Pick<LogRecord, 'seq' | 'timeMs' | 'entries'>,
): RecentUpdate {
  const topics = new Set(entries.flatMap((entry) => entry.topics));
  return { seq, timeMs: byOurClock(log, timeMs), topics: topics.size > FEW_TOPICS ? topics : [...topics] };
}

/** Reads the last updates of a log. */
export async function recentUpdates(log: Pick<UpdateLog, 'head' | 'tail' | 'clockAheadMs'>): Promise<RecentUpdates> {
  const after = Math.max(0, log.head - READ_AT_START);
  const recent = new RecentUpdates(after);
  let chars = 0;
  for (let at = after; at < log.head; ) {
    const page = await log.tail(at, READ_AT_START);
    // The log may not retain them any more, or they are large: the lag of a client is then a lower bound.
    if (page === undefined || chars > CHARS_AT_START) return new RecentUpdates(log.head);
    for (const record of page.records) recent.add(updateOf(log, record));
    at = page.through;
    chars += page.chars ?? 0;
  }
  return recent;
}
