import { createHash } from 'node:crypto';
import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { Turns } from '../../lib/run/turns.js';
import { withOverrides } from '../../lib/run/with-overrides.js';
import type { PeerEntry } from '../../wire/data.js';
import type { DocPath } from '../../wire/doc-path.js';
import { type AppendedRow, AppendQueue, Compactor, type OwnRow } from './append-queue.js';
import { Audit } from './audit.js';
import { BaseConfig } from './base-config.js';
import type { Fold } from './fold.js';
import type { FoldedState } from './folded-state.js';
import { LargeLoaded, LargeRows } from './large-rows.js';
import { byClockOf } from './log-clock.js';
import { type LogMemory, MemoryWatch, type ProcessLimits, processLimits } from './log-memory.js';
import type { Durability, LogStore, NewRow, Presence, RowFilter, StoreStatus, WriteStatus } from './log-store.js';
import { type FollowOptions, LogView, loadState } from './log-view.js';
import { lookThrough } from './look-through.js';
import { type AppendProblem, hasAppends } from './patch-appends.js';
import { PatchLimit } from './patch-limit.js';
import { Retention, type RetentionLimits } from './retention.js';
import { readUpdateRow, updateBodyText } from './row.js';
import { TailReader } from './tail-reader.js';
import { TopicLimit, type TopicSizes } from './topic-limit.js';
import type {
  AuditPage,
  FoldedEntry,
  Idempotency,
  LogRecord,
  NewRecord,
  PolicyHead,
  Recorded,
  RowOutline,
  ShowsTopics,
  TailPage,
  UpdateLog,
  UpdateTopics,
} from './update-log.js';
import { type WatchTimes, WriteWatch } from './write-watch.js';

export interface FoldedLogOptions extends FollowOptions {
  /**
   * True if no other instance can append to this store: then it is not followed, and the base
   * entries of this instance count.
   */
  readonly exclusive: boolean;
  /** Maximum number of patches that stack at one path. */
  readonly patchesPerPath: number;
  readonly retention: RetentionLimits;
  /** What the topics of the log may take. Default: {@link TopicLimit}. */
  readonly topics?: TopicSizes | undefined;
  /** What the process may have. Default: what it has. */
  readonly memory?: ProcessLimits | undefined;
  /** When it is looked whether the store takes writes. */
  readonly probes?: Partial<WatchTimes> | undefined;
}

const TAIL_LIMIT = 1000;

/**
 * An {@link UpdateLog} over any {@link LogStore}: keeps the folded state of the rows in memory, and
 * follows the store in order.
 */
export class FoldedLog implements UpdateLog {
  readonly #options: FoldedLogOptions;
  readonly #store: LogStore;
  /** By the clock of the store. */
  readonly #now: () => number;
  /** One record at a time that depends on the exact state of the log. */
  readonly #turns = new Turns(1, { what: 'appends to lists that wait for their turn' });
  readonly #queue: AppendQueue;
  readonly #retention: Retention;
  readonly #view: LogView;
  readonly #base: BaseConfig;
  readonly #compactor: Compactor;
  readonly #patches: PatchLimit;
  readonly #topics: TopicLimit;
  readonly #loaded: LargeLoaded;
  readonly #memory: MemoryWatch;
  readonly #large: LargeRows;
  readonly #tail: TailReader;
  readonly #audit: Audit;
  readonly #writes: WriteWatch;
  readonly #stop = new AbortController();
  #following: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;

  /** Loads the store. Rejects like {@link LogStore.load}, and with `log_damaged`. */
  static async open(
    store: LogStore,
    options: FoldedLogOptions,
    deps: { log: Logger; now?: (() => number) | undefined },
  ): Promise<FoldedLog> {
    const now = deps.now ?? Date.now;
    const large = new LargeLoaded();
    const memory = new MemoryWatch(options.memory ?? processLimits(), deps.log);
    const state = await loadState(store, now, {
      loaded: (...row) => large.loaded(...row),
      paged: ({ size }) => memory.look(size),
    });
    const log = new FoldedLog(store, options, { log: deps.log, now, large, memory }, state);
    await log.#writes.start();
    log.#start();
    return log;
  }

  private constructor(
    store: LogStore,
    options: FoldedLogOptions,
    deps: { log: Logger; now: () => number; large: LargeLoaded; memory: MemoryWatch },
    state: FoldedState,
  ) {
    this.#options = options;
    this.#loaded = deps.large;
    this.#memory = deps.memory;
    this.#now = () => byClockOf(store, deps.now());
    const asked = { probe: (bytes: number) => store.probe(bytes), room: async () => store.room?.() };
    this.#writes = new WriteWatch({ ...deps, ...asked }, options.probes);
    this.#store = store;
    const written = watched(store, this.#writes);
    this.#view = new LogView(state, { ...deps, store, append: written.append, applied: () => this.#tidy() });
    this.#patches = new PatchLimit(options.patchesPerPath);
    this.#topics = new TopicLimit(options.topics);
    this.#large = new LargeRows(store);
    this.#tail = new TailReader(store, this.#large, () => this.head);
    this.#audit = new Audit(store, this.#large);
    this.#retention = new Retention(options.retention, { ...deps, store: written, now: this.#now });
    this.#queue = new AppendQueue({ append: (batch) => this.#view.append(batch), log: deps.log });
    this.#compactor = new Compactor(this.#queue);
    this.#base = new BaseConfig(options, { ...deps, view: this.#view, retention: this.#retention });
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
  get writes(): WriteStatus {
    return this.#writes.status;
  }
  get memory(): LogMemory {
    return this.#memory.status;
  }
  /**
   * The presence of the store: a store that takes no more refuses its texts first where nobody
   * publishes.
   */
  get presence(): Presence {
    const { presence } = this.#store;
    return withOverrides(presence, {
      put: (...args) => this.#writes.during([1], () => presence.put(...args)),
      putParts: (...args) => this.#writes.during([1], () => presence.putParts(...args)),
    });
  }
  get roundTripMs(): number | undefined {
    return this.#store.roundTripMs;
  }
  get clockAheadMs(): number | undefined {
    return this.#store.clockAheadMs;
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
    return this.#unexpired().entries();
  }

  foldOn(topics: Iterable<string>): readonly FoldedEntry[] {
    return this.#unexpired().entriesOn(topics);
  }

  foldVersion(): number {
    return this.#unexpired().version;
  }

  repeatsBase(entry: PeerEntry): boolean {
    return this.#unexpired().hasBase(entry);
  }

  #unexpired(): Fold {
    this.#expire();
    return this.#state.fold;
  }

  #expire(): void {
    const { retention } = this.#options;
    if (this.#state.expire(this.#now(), retention)) this.#retention.take(this.#state.takeUnused());
  }

  ended(): readonly FoldedEntry[] {
    return this.#unexpired().ended();
  }

  mayHave(path: DocPath): boolean {
    return this.#state.fold.mayHave(path);
  }

  hasDeletion(path: DocPath): boolean {
    return this.#state.fold.hasDeletion(path);
  }

  heads(topics: readonly string[]): Readonly<Record<string, number>> {
    return Object.fromEntries(topics.map((topic) => [topic, this.#state.topicHead(topic)]));
  }

  deliverTo(deliver: (record: LogRecord) => number): void {
    this.#view.deliverTo(deliver);
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

  async append(record: NewRecord): Promise<Recorded> {
    return (await this.#append(record)).record;
  }

  async appendOnce(record: NewRecord, once: Idempotency): Promise<{ record: Recorded; replayed: boolean }> {
    return await this.#append(record, once);
  }

  async #append(given: NewRecord, once?: Idempotency): Promise<{ record: Recorded; replayed: boolean }> {
    const key = once === undefined ? undefined : digest(once.key);
    const record: NewRecord = key === undefined ? given : { ...given, once: key };
    this.#topics.check(record, this.#state);
    const body = printed(record, once);
    const row: NewRow = { kind: 'update', body, ...(key === undefined ? {} : { dedup: `once:${key}` }) };
    const isExact = hasAppends(record) || (!this.#options.exclusive && this.#patches.isNear(record, this.#state.fold));
    const place = isExact
      ? await this.#patches.during(record, () => this.#appendExactly({ row, record }))
      : (this.#repetitionOf(record) ?? (await this.#patches.during(record, () => this.#queue.append({ row, record }))));
    if (place.duplicate) return { record: await this.#replayed(place.seq, once), replayed: true };
    return { record: this.#recorded(record, place), replayed: false };
  }

  /**
   * Throws `too_many_patches`, unless the record repeats an accepted one: then returns the place of
   * that one.
   */
  #repetitionOf(record: NewRecord): AppendedRow | undefined {
    const { fold } = this.#state;
    const { once, entries } = record;
    try {
      this.#patches.check(record, fold);
      return undefined;
    } catch (error) {
      const seqs = once === undefined ? [] : entries.map((entry) => fold.patchOnce(entry, once));
      const seq = seqs.find((found) => found !== undefined);
      if (seq === undefined) throw error;
      return { seq, duplicate: true };
    }
  }

  /**
   * Appends a record whose acceptance depends on the exact state of the log before it: one with
   * operations at `-`, which need a document in the log, or one close to the limit of patches,
   * which other instances may exhaust. Such a record may take as long as the document is, so
   * publishers take turns, and all others go on between two of them.
   */
  async #appendExactly(own: { readonly row: NewRow; readonly record: NewRecord }): Promise<AppendedRow> {
    const { publisher } = own.record;
    return await this.#turns.run({ subject: publisher, address: publisher ?? '' }, () => this.#appendInTurn(own));
  }

  async #appendInTurn(own: { readonly row: NewRow; readonly record: NewRecord }): Promise<AppendedRow> {
    const { record } = own;
    const make = (): readonly OwnRow[] => {
      const { fold } = this.#state;
      const problem = fold.appendProblem(record);
      if (problem !== undefined) throw notAppended(problem);
      this.#patches.checkNext(record, fold);
      return [own];
    };
    return await this.#queue.exclusively(async () => {
      try {
        const [place] = await this.#view.appendFrom(make);
        return place as AppendedRow;
      } catch (error) {
        // The record may repeat an accepted one.
        const seq = await this.#placeOf(record.once);
        if (seq === undefined) throw error;
        return { seq, duplicate: true };
      }
    });
  }

  /** Seq of a recent record that was appended under a key with this digest. */
  async #placeOf(once: string | undefined): Promise<number | undefined> {
    if (once === undefined) return undefined;
    let found: number | undefined;
    const part = { newest: this.head, filter: [[`"once":${JSON.stringify(once)}`]] };
    await lookThrough(this, this.head + 1, part, (record) => {
      if (record.once === once) found = record.seq;
      return found === undefined;
    });
    return found;
  }

  async appendFrom(make: (fold: readonly FoldedEntry[]) => readonly NewRecord[]): Promise<readonly Recorded[]> {
    let records: readonly NewRecord[] = [];
    const places = await this.#queue.exclusively(() =>
      this.#view.appendFrom(() => {
        records = make(this.fold());
        return records.map((record) => ({ record, row: { kind: 'update', body: printed(record, undefined) } }));
      }),
    );
    return records.map((record, index) => this.#recorded(record, places[index] as AppendedRow));
  }

  #recorded(record: NewRecord, { seq, timeMs = this.#now(), subscribers }: AppendedRow): Recorded {
    return { ...record, seq, timeMs, ...(subscribers === undefined ? {} : { subscribers }) };
  }

  /** The record that was first published under the key. */
  async #replayed(seq: number, once: Idempotency | undefined): Promise<LogRecord> {
    const [row] = await this.#store.read(seq - 1, 1);
    if (row?.seq !== seq) {
      const text = `an update with this Idempotency-Key was recorded as seq ${seq}, but its content is not kept any more`;
      throw new SyncError('idempotency_conflict', text);
    }
    const read = row.kind === 'update' ? readUpdateRow(row) : undefined;
    if (read?.kind !== 'record' || read.digest !== once?.digest) {
      throw new SyncError('idempotency_conflict', 'another update was published with this Idempotency-Key');
    }
    return read.record;
  }

  async appendPolicy(body: string, lastSeq: number): Promise<PolicyHead> {
    return await this.#queue.exclusively(async () => {
      try {
        const [place] = await this.#view.append([{ row: { kind: 'policy', body } }], { kind: 'policy', lastSeq });
        return { seq: place?.seq ?? 0, body };
      } catch (error) {
        // The caller sees the head of the other instance as soon as it gets the conflict.
        if (error instanceof SyncError && error.code === 'log_conflict') await this.#view.catchUp();
        throw error;
      }
    });
  }

  async adoptBase(entries: readonly PeerEntry[] | undefined): Promise<void> {
    if (entries !== undefined) await this.#queue.exclusively(() => this.#base.adopt(entries));
  }

  tail(after: number, limit = TAIL_LIMIT, shows?: ShowsTopics): Promise<TailPage | undefined> {
    return this.#tail.read(after, limit, shows);
  }

  audit(before: number, limit: number, filter?: RowFilter): Promise<AuditPage> {
    return this.#audit.read(before, limit, filter);
  }

  row(seq: number): Promise<RowOutline | undefined> {
    return this.#audit.row(seq);
  }

  record(seq: number): Promise<LogRecord | undefined> {
    return this.#large.record(seq);
  }

  takeLargeLoaded(): ReadonlyMap<number, UpdateTopics> {
    return this.#loaded.take();
  }

  async extent(): Promise<{ beginsAt: number; bytes: number | undefined }> {
    const [[oldest], bytes] = await Promise.all([this.#store.scan({ after: 0 }, 1, []), this.#store.sizeBytes?.()]);
    return { beginsAt: oldest?.seq ?? this.head, bytes };
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
    await this.#writes.close();
    await this.#store.close();
  }

  #start(): void {
    this.#retention.take(this.#state.takeUnused());
    void this.#retention.work(); // never rejects
    this.#compactor.write(this.#state);
    if (!this.#options.exclusive) this.#following = this.#view.follow(this.#stop.signal, this.#options);
  }

  /** After rows were applied: retires unused rows, and compacts documents with many patches. */
  #tidy(): void {
    this.#expire();
    this.#memory.look(this.#state.size);
    this.#retention.take(this.#state.takeUnused());
    if (this.#closing === undefined) this.#compactor.write(this.#state);
  }
}

/** All that writes to the store, watched. */
function watched(store: LogStore, writes: WriteWatch): Pick<LogStore, 'append' | 'retire' | 'dropRetired'> {
  return {
    append: (rows, expect) =>
      writes.during(
        rows.map(({ body }) => body.length),
        () => store.append(rows, expect),
        (places) => rows.reduce((sum, { body }, at) => sum + (places[at]?.duplicate === false ? body.length : 0), 0),
      ),
    retire: (seqs) => writes.during(seqs.length === 0 ? [0] : [1], () => store.retire(seqs)),
    dropRetired: (beforeMs) => writes.during([0], () => store.dropRetired(beforeMs)),
  };
}

/**
 * The text of a record. Printed before the record joins a batch, so that a failure affects only its
 * publisher.
 */
function printed(record: NewRecord, once: Idempotency | undefined): string {
  try {
    return updateBodyText(record, once);
  } catch (cause) {
    throw new SyncError('request_invalid', 'the update cannot be written as JSON: it is nested too deep', { cause });
  }
}

function notAppended({ index, msg }: AppendProblem): SyncError {
  const loc = ['body', 'entries', index, 'data'];
  const detail = [{ loc, msg, type: 'value_error' }];
  return new SyncError('request_invalid', `${loc.join('.')}: ${msg}`, { detail });
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
