import { createHash } from 'node:crypto';
import { invalidRequest } from '../../http/json-body.js';
import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { PeerEntry } from '../../wire/data.js';
import { appendMade, type MadeRow } from './append-made.js';
import { AppendQueue, type ExclusiveTask } from './append-queue.js';
import { readAudit } from './audit-pages.js';
import { BaseConfig } from './base-config.js';
import { Compactor } from './compactor.js';
import type { FoldedState } from './folded-state.js';
import type { Appended, Durability, Expectation, LogStore, NewRow, StoreStatus } from './log-store.js';
import { type FollowOptions, LogView, loadState } from './log-view.js';
import { type AppendProblem, hasAppends } from './patch-appends.js';
import { PatchLimit } from './patch-limit.js';
import { Retention, type RetentionLimits } from './retention.js';
import { readUpdateRow, updateBodyText } from './row.js';
import { TailReader } from './tail-reader.js';
import type {
  AuditRecord,
  FoldedEntry,
  Idempotency,
  LogRecord,
  NewRecord,
  PolicyHead,
  TailPage,
  UpdateLog,
} from './update-log.js';

/** How a {@link FoldedLog} goes about it. */
export interface FoldedLogOptions extends FollowOptions {
  /** True where no other instance can append to this store. Then nothing is followed, and its own base entries count. */
  readonly exclusive: boolean;
  /** Patches that may stack at one path. */
  readonly patchesPerPath: number;
  readonly retention: RetentionLimits;
}

const TAIL_LIMIT = 1000;
/** What is wrong with a record, and not with the log. */
const REFUSALS: ReadonlySet<string> = new Set(['request_invalid', 'too_many_patches']);
/** For `Retry-After`: what cannot be read stays so until somebody does something. */
const UNREADABLE_RETRY_SECONDS = 10;

/** An {@link UpdateLog} over any {@link LogStore}: keeps what the rows amount to in memory, and follows the store in order. */
export class FoldedLog implements UpdateLog {
  readonly #options: FoldedLogOptions;
  readonly #store: LogStore;
  readonly #now: () => number;
  readonly #queue: AppendQueue;
  readonly #retention: Retention;
  readonly #view: LogView;
  readonly #base: BaseConfig;
  readonly #compactor: Compactor;
  readonly #patches: PatchLimit;
  readonly #tail: TailReader;
  readonly #stop = new AbortController();
  #following: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  /** Reads what the store has. Rejects with what it rejects with, and with `log_damaged`. */
  static async open(
    store: LogStore,
    options: FoldedLogOptions,
    deps: { log: Logger; now?: (() => number) | undefined },
  ): Promise<FoldedLog> {
    const now = deps.now ?? Date.now;
    const log = new FoldedLog(store, options, { log: deps.log, now }, await loadState(store, now));
    log.#start();
    return log;
  }

  private constructor(
    store: LogStore,
    options: FoldedLogOptions,
    deps: { log: Logger; now: () => number },
    state: FoldedState,
  ) {
    this.#store = store;
    this.#options = options;
    this.#now = deps.now;
    this.#view = new LogView(state, { ...deps, store, applied: () => this.#tidy() });
    this.#patches = new PatchLimit(options.patchesPerPath);
    this.#tail = new TailReader(store, () => this.head);
    this.#retention = new Retention(options.retention, { ...deps, store });
    this.#queue = new AppendQueue({ append: (rows) => this.#write(rows), log: deps.log }, (batch, places) =>
      this.#view.takeOwn(batch, places),
    );
    this.#compactor = new Compactor(this.#queue);
    this.#base = new BaseConfig(options, { ...deps, store, view: this.#view, retention: this.#retention });
  }

  get #state(): FoldedState {
    return this.#view.state;
  }
  get epoch(): string {
    return this.#store.epoch;
  }
  get durability(): Durability {
    return this.#store.durability;
  }
  get status(): StoreStatus {
    const { status } = this.#store;
    return status.up ? this.#view.status : status;
  }
  get failed(): Promise<never> {
    return this.#store.failed;
  }
  get head(): number {
    return this.#state.head;
  }
  get policy(): PolicyHead | undefined {
    return this.#state.policy;
  }
  get configDiffers(): boolean {
    return this.#base.differs;
  }

  fold(): readonly FoldedEntry[] {
    if (this.#state.fold.expire(this.#now())) this.#retention.take(this.#state.takeUnused());
    return this.#state.fold.entries();
  }

  heads(topics: readonly string[]): Readonly<Record<string, number>> {
    return Object.fromEntries(topics.map((topic) => [topic, this.#state.topicHead(topic)]));
  }

  onRecord(listener: (record: LogRecord) => void): () => void {
    return this.#view.onRecord(listener);
  }

  onSkipped(listener: () => void): () => void {
    return this.#view.onSkipped(listener);
  }

  onPolicy(listener: (head: PolicyHead) => void): () => void {
    return this.#view.onPolicy(listener);
  }

  async append(record: NewRecord): Promise<LogRecord> {
    return (await this.#append(record)).record;
  }

  async appendOnce(record: NewRecord, once: Idempotency): Promise<{ record: LogRecord; replayed: boolean }> {
    return await this.#append(record, once);
  }

  async #append(given: NewRecord, once?: Idempotency): Promise<{ record: LogRecord; replayed: boolean }> {
    const key = once === undefined ? undefined : digest(once.key);
    const record: NewRecord = key === undefined ? given : { ...given, once: key };
    const body = printed(record, once);
    const isExact = hasAppends(record) || (!this.#options.exclusive && this.#patches.isNear(record, this.#state.fold));
    if (isExact) return await this.#patches.during(record, () => this.#appendExactly(record, body, once));
    try {
      this.#patches.check(record, this.#state.fold);
    } catch (error) {
      // It may be the repetition of one that the limit had room for.
      const { fold } = this.#state;
      const seq = key && record.entries.map((entry) => fold.patchOnce(entry, key)).find((found) => found !== undefined);
      if (typeof seq !== 'number') throw error;
      return { record: await this.#replayed(seq, once), replayed: true };
    }
    const row: NewRow = { kind: 'update', body, ...(key === undefined ? {} : { dedup: `once:${key}` }) };
    this.#view.expect(row, record);
    return await this.#patches.during(record, async () => {
      const place = await this.#appendRow(row);
      if (!place.duplicate) return { record: { ...record, ...place.record }, replayed: false };
      return { record: await this.#replayed(place.seq, once), replayed: true };
    });
  }

  /**
   * Appends a record that is only taken as the log is in its place: with operations at `-`, which have to be worked into a document of
   * the log, or where patches of other instances may leave no room for those of this one.
   */
  async #appendExactly(
    record: NewRecord,
    body: string,
    once: Idempotency | undefined,
  ): Promise<{ record: LogRecord; replayed: boolean }> {
    const row: NewRow = {
      kind: 'update',
      body,
      ...(record.once === undefined ? {} : { dedup: `once:${record.once}` }),
    };
    const made = (): MadeRow[] => {
      const { fold } = this.#state;
      const problem = fold.appendProblem(record);
      if (problem !== undefined) throw notAppended(problem);
      this.#patches.checkNext(record, fold);
      this.#view.expect(row, record);
      return [{ record, row, resolve: () => undefined, reject: () => undefined }];
    };
    const write = (rows: readonly NewRow[], expect: Expectation): Promise<readonly Appended[]> =>
      this.#write(rows, expect);
    return await new Promise((resolve, reject) => {
      const run = async (): Promise<void> => {
        const place = await appendMade(made, { view: this.#view, write }).then(
          ({ places: [first] }) => first,
          async (error: unknown) => {
            // It may be the repetition of one that was taken; else this is an answer, not a failure of the log.
            const seq = await this.#placeOf(record.once);
            if (seq !== undefined) return { seq, duplicate: true };
            if (!(error instanceof SyncError) || !REFUSALS.has(error.code)) throw error;
            reject(error);
            return undefined;
          },
        );
        if (place === undefined) return;
        const { seq, duplicate, timeMs = this.#now() } = place as Appended;
        if (duplicate) resolve({ record: await this.#replayed(seq, once), replayed: true });
        else resolve({ record: { ...record, seq, timeMs }, replayed: false });
      };
      this.#queue.add({ run, reject });
    });
  }

  /** The place of a record of late that was appended under a key with this digest. */
  async #placeOf(once: string | undefined): Promise<number | undefined> {
    if (once === undefined) return undefined;
    const rows = await this.#store.readBack(this.head + 1, TAIL_LIMIT);
    return rows.find((row) => {
      const read = row.kind === 'update' ? readUpdateRow(row) : undefined;
      return read?.kind === 'record' && read.record.once === once;
    })?.seq;
  }

  async appendFrom(make: (fold: readonly FoldedEntry[]) => readonly NewRecord[]): Promise<readonly LogRecord[]> {
    return await new Promise((resolve, reject) => {
      this.#queue.add({ run: async () => resolve(await this.#appendFrom(make)), reject });
    });
  }

  async #appendFrom(make: (fold: readonly FoldedEntry[]) => readonly NewRecord[]): Promise<readonly LogRecord[]> {
    const made = (): MadeRow[] =>
      make(this.fold()).map((record) => {
        const row: NewRow = { kind: 'update', body: printed(record, undefined) };
        this.#view.expect(row, record);
        return { record, row, resolve: () => undefined, reject: () => undefined };
      });
    const write = (rows: readonly NewRow[], expect: Expectation): Promise<readonly Appended[]> =>
      this.#write(rows, expect);
    const { places, rows } = await appendMade(made, { view: this.#view, write });
    return rows.map(({ record }, index) => {
      const { seq = 0, timeMs = this.#now() } = places[index] ?? {};
      return { ...record, seq, timeMs };
    });
  }

  /** Appends, unless this instance cannot read the log: then nobody could be told what became of it. */
  #write(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]> {
    const { status } = this.#view;
    if (status.up) return this.#store.append(rows, expect);
    const text = `nothing was written: ${status.reason}`;
    const wait = { retryable: true, retryAfterSeconds: UNREADABLE_RETRY_SECONDS };
    return Promise.reject(new SyncError('backbone_unavailable', text, wait));
  }

  /** Resolves when the row is durable and applied here. */
  async #appendRow(row: NewRow): Promise<Appended & { record: { seq: number; timeMs: number } }> {
    const place = await new Promise<Appended>((resolve, reject) => {
      this.#queue.add({ row, resolve, reject });
    });
    const { seq, timeMs = this.#now() } = place;
    return { ...place, record: { seq, timeMs } };
  }

  /** The record that was first published under a key. */
  async #replayed(seq: number, once: Idempotency | undefined): Promise<LogRecord> {
    const [row] = await this.#store.read(seq - 1, 1);
    if (row?.seq !== seq) {
      const text = `an update with this Idempotency-Key is in the log at ${seq}; what it said is not kept any more`;
      throw new SyncError('idempotency_conflict', text);
    }
    const read = row.kind === 'update' ? readUpdateRow(row) : undefined;
    if (read?.kind !== 'record' || read.digest !== once?.digest) {
      throw new SyncError('idempotency_conflict', 'another update was published with this Idempotency-Key');
    }
    return read.record;
  }

  async appendPolicy(body: string, lastSeq: number): Promise<PolicyHead> {
    return await new Promise<PolicyHead>((resolve, reject) => {
      const run = async (): Promise<void> => {
        const row: NewRow = { kind: 'policy', body };
        const places = await this.#write([row], { kind: 'policy', lastSeq });
        await this.#view.takeOwn([{ row, resolve: () => undefined, reject }], places);
        resolve({ seq: places[0]?.seq ?? 0, body });
      };
      this.#queue.add({ run: () => this.#unlessConflict(run, reject), reject });
    });
  }

  /** A conflict is an answer, not a failure of the log; what the other one wrote is read first. */
  async #unlessConflict(run: () => Promise<void>, reject: (error: unknown) => void): Promise<void> {
    try {
      await run();
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'log_conflict') throw error;
      await this.#view.catchUp();
      reject(error);
    }
  }

  async adoptBase(entries: readonly PeerEntry[] | undefined): Promise<void> {
    if (entries === undefined) return;
    await new Promise<void>((resolve, reject) => {
      const alone: ExclusiveTask = { run: async () => resolve(await this.#base.adopt(entries)), reject };
      this.#queue.add(alone);
    });
  }

  tail(after: number, limit = TAIL_LIMIT): Promise<TailPage | undefined> {
    return this.#tail.read(after, limit);
  }

  audit(before: number, limit: number): Promise<{ records: readonly AuditRecord[]; next: number | undefined }> {
    return readAudit(this.#store, before, limit);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#queue.close();
    this.#stop.abort();
    await this.#following;
    await this.#view.settled();
    await this.#retention.close();
    await this.#store.close();
  }

  #start(): void {
    this.#retention.take(this.#state.takeUnused());
    void this.#retention.work(); // never rejects
    this.#compactor.write(this.#state.fold);
    if (!this.#options.exclusive) this.#following = this.#view.follow(this.#stop.signal, this.#options);
  }

  /** After rows were applied: passes on what is needed no more, and writes documents anew that many patches wait for. */
  #tidy(): void {
    this.#retention.take(this.#state.takeUnused());
    if (this.#closing === undefined) this.#compactor.write(this.#state.fold);
  }
}

/** The text of a record. Done for each publisher alone, before its record joins those of others in a transaction. */
function printed(record: NewRecord, once: Idempotency | undefined): string {
  try {
    return updateBodyText(record, once);
  } catch (cause) {
    throw new SyncError('request_invalid', 'the update cannot be written as JSON: it is nested too deep', { cause });
  }
}

function notAppended({ index, msg }: AppendProblem): SyncError {
  const loc = ['body', 'entries', index, 'data'];
  return invalidRequest([{ loc, msg, type: 'value_error' }]);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
