import { Fold } from './fold.js';
import type { LiveSize } from './log-memory.js';
import type { StoredRow } from './log-store.js';
import type { RetentionLimits } from './retention.js';
import { checkRow, type Generation, readGeneration, readUpdateRow } from './row.js';
import { RowRefs } from './row-refs.js';
import type { TopicSizes } from './topic-limit.js';
import type { LogRecord, PolicyHead } from './update-log.js';

/** A compaction that is appended later than so many rows after what it was made of is none. */
const COMPACTION_ROWS = 1000;

/** What a row contained, for listeners. */
export interface AppliedRow {
  readonly record?: LogRecord;
  readonly policy?: PolicyHead;
}

/**
 * The state that the rows of a log add up to: the fold, the last seq of each topic, the base
 * configuration, the policy head.
 */
export class FoldedState {
  readonly #refs = new RowRefs();
  readonly fold = new Fold(this.#refs);
  readonly #topicHeads = new Map<string, number>();
  #topicChars = 0;
  #generation: (Generation & { readonly seq: number }) | undefined;
  #policy: PolicyHead | undefined;
  /** Seq of the last applied row. */
  head = 0;

  /** The current generation of the base configuration. */
  get generation(): (Generation & { readonly seq: number }) | undefined {
    return this.#generation;
  }

  get policy(): PolicyHead | undefined {
    return this.#policy;
  }

  /** What it takes in memory. */
  get size(): LiveSize {
    return {
      entries: this.fold.size,
      ended: this.fold.endedCount,
      topics: this.#topicHeads.size,
      chars: this.fold.chars,
    };
  }

  /** What the topics take that have had an update. */
  get topics(): TopicSizes {
    return { count: this.#topicHeads.size, chars: this.#topicChars };
  }

  topicHead(topic: string): number {
    return this.#topicHeads.get(topic) ?? 0;
  }

  /**
   * Applies a row; rows come in order. `record`: the parsed record of the row, if it is known
   * already. Throws `log_damaged`.
   */
  apply(stored: StoredRow, record?: LogRecord): AppliedRow {
    checkRow(stored);
    const { seq } = stored;
    this.#refs.add(seq); // keeps the row while its own entries supersede each other
    const applied = this.#apply(stored, record);
    this.#refs.drop(seq);
    this.head = Math.max(this.head, seq); // last, so that an unreadable row is not skipped
    return applied;
  }

  #apply(row: StoredRow, record: LogRecord | undefined): AppliedRow {
    const { seq, kind, body } = row;
    switch (kind) {
      case 'update':
        return this.#applyUpdate(row, record);
      case 'base':
        this.#replaceBase(row);
        return {};
      case 'policy': {
        const policy = { seq, body };
        this.#refs.add(seq);
        if (this.#policy !== undefined) this.#refs.drop(this.#policy.seq);
        this.#policy = policy;
        return { policy };
      }
    }
  }

  /** Rows that became unused since the last call. */
  takeUnused(): number[] {
    return this.#refs.takeUnused();
  }

  /**
   * Removes what has expired, and what is not kept any more of deletions that have ended. Returns
   * whether there was any.
   */
  expire(nowMs: number, { maxAgeMs, maxRows }: RetentionLimits): boolean {
    return this.fold.expire(nowMs, { keptMs: maxAgeMs, atMost: maxRows, after: this.head - COMPACTION_ROWS });
  }

  #applyUpdate(row: StoredRow, known: LogRecord | undefined): AppliedRow {
    let record = known;
    if (record === undefined) {
      const read = readUpdateRow(row);
      if (read.kind === 'compaction') {
        // A later one may be of a document that was deleted by what is forgotten.
        if (row.seq - read.compaction.made <= COMPACTION_ROWS) this.fold.applyCompaction(read.compaction, row.seq);
        return {};
      }
      record = read.record;
    }
    const { seq, timeMs, id, publisher, reason, entries, retain = true, once } = record;
    const expiresMs = typeof retain === 'number' ? timeMs + retain * 1000 : undefined;
    const update = { id, reason, timeMs, once, publisher };
    if (retain !== true) this.fold.passed(entries);
    if (retain !== false) this.fold.applyRecord({ seq, entries, update, expiresMs });
    const prev: Record<string, number> = {};
    for (const topic of new Set(entries.flatMap((entry) => entry.topics))) {
      const before = this.topicHead(topic);
      prev[topic] = before;
      if (before === 0) this.#topicChars += topic.length;
      this.#topicHeads.set(topic, seq);
      this.#refs.add(seq);
      if (before !== 0) this.#refs.drop(before);
    }
    return { record: { ...record, prev } };
  }

  #replaceBase(row: StoredRow): void {
    const generation = readGeneration(row);
    this.#refs.add(row.seq);
    if (this.#generation !== undefined) this.#refs.drop(this.#generation.seq);
    this.#generation = { ...generation, seq: row.seq };
    this.fold.setBase(generation.entries, generation.superseded);
  }
}
