import type { Appended, Durability, Expectation, LogStore, NewRow, Presence, StoredRow } from '../log/log-store.js';
import type { Session, SessionKeeper } from './session-keeper.js';

/** What the stores of all backbones share; each has its own way to write and read rows. */
export abstract class BackboneStore<S extends Session> implements LogStore {
  readonly epoch: string;
  readonly durability: Durability;
  readonly failed: Promise<never>;
  abstract readonly presence: Presence;
  protected readonly keeper: SessionKeeper<S>;

  constructor(keeper: SessionKeeper<S>, durability: Durability) {
    this.keeper = keeper;
    this.epoch = keeper.epoch;
    this.failed = keeper.failed;
    this.durability = durability;
  }

  get status(): LogStore['status'] {
    return this.keeper.status;
  }

  async load(): ReturnType<LogStore['load']> {
    const { head } = await this.keeper.call((session) => session.look(0));
    return { head, rows: this.live() };
  }

  /** All rows that are not retired, in pages. */
  protected abstract live(): AsyncGenerator<readonly StoredRow[]>;
  abstract append(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]>;
  abstract read(after: number, limit: number): Promise<readonly StoredRow[]>;
  abstract readBack(before: number, limit: number): Promise<readonly StoredRow[]>;
  abstract retire(seqs: readonly number[]): Promise<void>;
  abstract dropRetired(beforeMs: number): Promise<number>;

  watch(listener: () => void): () => void {
    return this.keeper.watch(listener);
  }

  close(): Promise<void> {
    return this.keeper.close();
  }
}
