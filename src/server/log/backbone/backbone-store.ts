import type {
  Appended,
  Durability,
  Expectation,
  LogStore,
  Mail,
  NewRow,
  Presence,
  RowFilter,
  ScanFrom,
  ScannedRow,
  StoredRow,
  StoreStatus,
} from '../log-store.js';
import type { Session, SessionKeeper } from './session-keeper.js';

/**
 * What the stores of all backbones share. Reports rows to the keeper, which recognizes a replaced
 * log by them.
 */
export abstract class BackboneStore<S extends Session> implements LogStore {
  abstract readonly presence: Presence;
  readonly mail: Mail;
  protected readonly keeper: SessionKeeper<S>;

  constructor(keeper: SessionKeeper<S>) {
    this.keeper = keeper;
    this.mail = { send: (text) => keeper.send(text), watch: (listener) => keeper.watchMail(listener) };
  }

  get epoch(): string {
    return this.keeper.epoch;
  }
  get durability(): Durability {
    return this.keeper.durability;
  }
  get failed(): Promise<never> {
    return this.keeper.failed;
  }
  get status(): StoreStatus {
    return this.keeper.status;
  }
  get roundTripMs(): number | undefined {
    return this.keeper.roundTripMs;
  }

  get clockAheadMs(): number | undefined {
    return this.keeper.clockAheadMs;
  }

  async load(): ReturnType<LogStore['load']> {
    const { state } = await this.keeper.call((session) => this.keeper.look(session, 0));
    const { head } = state;
    return { head, rows: this.live() };
  }

  async append(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]> {
    if (rows.length === 0) return [];
    const places = await this.write(rows, expect);
    for (const { seq } of places) this.keeper.sawHead(seq);
    return places;
  }

  async read(after: number, limit: number): Promise<readonly StoredRow[]> {
    const rows = await this.rowsAfter(after, limit);
    this.keeper.saw(rows.at(-1));
    return rows;
  }

  async scan(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]> {
    const rows = await this.look(from, limit, filter);
    this.keeper.saw('after' in from ? rows.at(-1) : rows[0]);
    return rows;
  }

  watch(listener: () => void): () => void {
    return this.keeper.watch(listener);
  }

  close(): Promise<void> {
    return this.keeper.close();
  }

  /** Pages of the rows that are not retired, in order. */
  protected abstract live(): AsyncGenerator<readonly StoredRow[]>;
  /** {@link LogStore.append} of at least one row. */
  protected abstract write(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]>;
  /** {@link LogStore.read}. */
  protected abstract rowsAfter(after: number, limit: number): Promise<readonly StoredRow[]>;
  /** {@link LogStore.scan}. */
  protected abstract look(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]>;
  abstract probe(bytes: number): Promise<void>;
  abstract retire(seqs: readonly number[]): Promise<void>;
  abstract dropRetired(beforeMs: number): Promise<number>;
}
