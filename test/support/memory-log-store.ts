import { SyncError } from '../../src/lib/errors.js';
import {
  type Appended,
  type Expectation,
  type LogStore,
  type NewRow,
  type Presence,
  type StoredRow,
  scannedRow,
} from '../../src/server/log/log-store.js';

/** A log in memory that several handles share, as a backbone does; the test takes it away and gives it back. */
export class MemoryLog {
  readonly rows: (StoredRow & { dedup?: string | undefined; retired: boolean })[] = [];
  readonly #heads = { base: 0, policy: 0, update: 0 };
  readonly #watchers = new Set<() => void>();
  #head = 0;
  #downSinceMs: number | undefined;
  /** While true, writes are refused. */
  isFull = false;
  /** Calls that were refused while it was away. */
  refusals = 0;

  /** Another instance's view of the log. */
  handle(): LogStore {
    const log = this;
    const presence: Presence = {
      put: async () => 0,
      list: async () => new Map(),
      putParts: async () => undefined,
      parts: async () => new Map(),
    };
    return {
      epoch: 'memory',
      durability: { level: 'durable' },
      get status() {
        return log.#downSinceMs === undefined
          ? ({ up: true } as const)
          : { up: false as const, reason: 'taken away', sinceMs: log.#downSinceMs };
      },
      failed: new Promise(() => undefined),
      presence,
      mail: { send: async () => undefined, watch: () => () => undefined },
      load: async () => {
        this.#check();
        const [head, rows] = [this.#head, this.rows.filter(({ retired }) => !retired)];
        async function* pages(): AsyncGenerator<readonly StoredRow[]> {
          for (let at = 0; at < rows.length; at += 3) yield rows.slice(at, at + 3);
        }
        return { head, rows: pages() };
      },
      append: async (rows, expect) => {
        await new Promise((resolve) => setImmediate(resolve));
        this.#check();
        this.#checkRoom();
        const places = this.#append(rows, expect);
        for (const watcher of [...this.#watchers]) setImmediate(watcher);
        return places;
      },
      probe: async () => {
        this.#check();
        this.#checkRoom();
      },
      read: async (after, limit) => {
        this.#check();
        return this.rows.filter(({ seq }) => seq > after).slice(0, limit);
      },
      scan: async (from, limit, filter) => {
        this.#check();
        const rows =
          'after' in from
            ? this.rows.filter(({ seq }) => seq > from.after)
            : this.rows.filter(({ seq }) => seq < from.before).reverse();
        return rows
          .slice(0, limit)
          .map(({ seq, kind, timeMs, body }) => scannedRow({ seq, kind, timeMs, body }, filter));
      },
      retire: async (seqs) => {
        this.#check();
        for (const row of this.rows) if (seqs.includes(row.seq)) row.retired = true;
      },
      dropRetired: async () => 0,
      watch: (listener) => {
        const own = (): void => listener();
        this.#watchers.add(own);
        return () => this.#watchers.delete(own);
      },
      close: async () => undefined,
    };
  }

  take(isAway: boolean): void {
    this.#downSinceMs = isAway ? Date.now() : undefined;
    for (const watcher of [...this.#watchers]) setImmediate(watcher);
  }

  /** Forgets the retired rows. */
  drop(): void {
    const last = this.#head;
    const kept = this.rows.filter(({ retired, seq }) => !retired || seq === last);
    this.rows.splice(0, this.rows.length, ...kept);
  }

  #check(): void {
    if (this.#downSinceMs === undefined) return;
    this.refusals++;
    throw new SyncError('backbone_unavailable', 'the log was taken away', { retryable: true, retryAfterSeconds: 1 });
  }

  #checkRoom(): void {
    if (this.isFull) throw new SyncError('log_unwritable', 'refused to write', { cause: new Error('no space left') });
  }

  #append(rows: readonly NewRow[], expect: Expectation | undefined): Appended[] {
    const last = expect?.kind === 'any' ? this.#head : this.#heads[expect?.kind ?? 'update'];
    if (expect !== undefined && last !== expect.lastSeq) {
      throw new SyncError('log_conflict', `the last ${expect.kind} row is another one`);
    }
    return rows.map(({ kind, body, dedup }) => {
      const first = dedup === undefined ? undefined : this.rows.find((row) => row.dedup === dedup);
      if (first !== undefined) return { seq: first.seq, duplicate: true };
      this.rows.push({ seq: ++this.#head, kind, body, dedup, timeMs: Date.now(), retired: false });
      this.#heads[kind] = this.#head;
      return { seq: this.#head, duplicate: false };
    });
  }
}
