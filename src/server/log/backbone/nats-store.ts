import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { StoredMsg } from '@nats-io/jetstream';
import * as z from 'zod';
import { SyncError } from '../../../lib/errors.js';
import { parseJson } from '../../../lib/json/json.js';
import type { Logger } from '../../../lib/observe/log.js';
import { sleep } from '../../../lib/run/async.js';
import { MAX_INSTANT_MS } from '../../../wire/instant.js';
import {
  type Appended,
  type Expectation,
  type LogStore,
  type NewRow,
  PAGE_CHARS,
  type Presence,
  type PresenceText,
  type RowFilter,
  type RowKind,
  SCAN_CHARS,
  type ScanFrom,
  type ScannedRow,
  type StoredRow,
  scannedRow,
} from '../log-store.js';
import { replaced, shortKey, unavailable, unwritable } from './backbone-errors.js';
import { BackboneStore } from './backbone-store.js';
import { type NatsNames, type NatsPlace, NatsSession, natsNames } from './nats-session.js';
import { type BackboneTimes, type SessionHooks, SessionKeeper } from './session-keeper.js';

const PAGE = 500;
/** Rows that a read backwards begins with: each may be as large as NATS takes one. */
const FIRST_WINDOW = 8;
/** Seqs per record of retirement. */
const RETIRED_AT_ONCE = 1000;
/**
 * A call of {@link LogStore.dropRetired} continues with the next record of retirement until it has
 * dropped this many rows.
 */
const DROP_AT_LEAST = 1000;
/** Larger bodies are compressed: by default NATS accepts at most 1 MiB. */
const COMPRESS_BYTES = 64 * 1024;
const ENCODING = 'Content-Encoding';
/** Longest text of a row: a bomb of one message has a thousand times its bytes. */
const MAX_ROW_BYTES = 128 * 1024 * 1024;
/** Longest announcement of an instance, with what surrounds its text. */
const MAX_PRESENCE_BYTES = 2 * 1024 * 1024;
/** Parts of announcements that are written, or read, at once: NATS reads at most 1024. */
const PARTS_AT_ONCE = 100;
/** How long an announcement counts that cannot be read. */
const UNREADABLE_MS = 10_000;
const pack = promisify(gzip);
const unpack = promisify(gunzip);

const retiredSeqs = z.array(z.number().int().positive());
const presenceMessage = z.object({
  instance: z.string(),
  text: z.string(),
  ttlMs: z.number().nonnegative().max(MAX_INSTANT_MS),
});

/**
 * Opens or creates the log `name` in NATS JetStream: a seq of the log is a sequence number of the
 * stream. Rejects with `backbone_unavailable`, `config_invalid`, `log_damaged`.
 */
export async function openNatsStore(
  options: { urls: readonly URL[]; what: string; name: string; times: BackboneTimes; syncAlways: boolean },
  deps: { log: Logger; signal?: AbortSignal | undefined },
): Promise<LogStore> {
  const place: NatsPlace = { ...options, names: natsNames(options.name) };
  const connect = (hooks: SessionHooks): Promise<NatsSession> => NatsSession.connect(place, hooks);
  return new NatsStore(await SessionKeeper.open<NatsSession>({ ...options, ...deps, connect }), place);
}

class NatsStore extends BackboneStore<NatsSession> {
  readonly presence: Presence;
  readonly #names: NatsNames;
  readonly #what: string;
  readonly #callMs: number;

  constructor(keeper: SessionKeeper<NatsSession>, { names, what, times }: NatsPlace) {
    super(keeper);
    this.#names = names;
    this.#what = what;
    this.#callMs = times.callMs;
    this.presence = natsPresence(keeper, names, what);
  }

  async sizeBytes(): Promise<number> {
    const { state } = await this.keeper.call((session) => session.info());
    return state.bytes;
  }

  protected async *live(): AsyncGenerator<readonly StoredRow[]> {
    const retired = new Set<number>();
    for await (const record of this.#retirements()) for (const seq of seqsOf(record)) retired.add(seq);
    for (let after = 0; ; ) {
      const page = await this.read(after, PAGE);
      const last = page.at(-1);
      if (last === undefined) return;
      const rows = page.filter(({ seq }) => !retired.has(seq));
      if (rows.length > 0) yield rows;
      after = last.seq;
    }
  }

  /**
   * Each row is a separate message: rows of one call are consecutive unless another instance
   * appends at the same time, and a failure may leave some of them written. An expectation guards
   * the first row of its kind; with kind `any`, every row.
   */
  protected async write(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]> {
    const bodies = await Promise.all(rows.map(({ body }) => encoded(body)));
    const sent = { bytes: bodies.reduce((sum, { body }) => sum + body.length, 0), flushes: rows.length };
    const highest = this.keeper.head;
    return await this.keeper.call(async (session, timeout) => {
      for (const { body } of bodies) this.#checkSize(body.length, session.limitBytes);
      const publish = async ({ kind, dedup }: NewRow, index: number, guard: Guard = {}): Promise<Appended> => {
        const { body = '', isPacked = false } = bodies[index] ?? {};
        const { seq, duplicate } = await session.publish(this.#names.rowSubject + kind, body, {
          timeout,
          // One object per row: the NATS client adds the dedup text and the expectation to it.
          headers: await session.headers(isPacked ? { [ENCODING]: 'gzip' } : {}),
          ...(dedup === undefined ? {} : { msgID: shortKey(dedup) }),
          expect: { streamName: this.#names.log, ...guard },
        } as Parameters<NatsSession['publish']>[2]);
        return { seq, duplicate };
      };
      const outcomes = await (expect === undefined
        ? Promise.allSettled(rows.map((row, index) => publish(row, index)))
        : guarded(rows, expect, publish));
      return this.#checked(this.#whole(outcomes), highest);
    }, sent);
  }

  /**
   * Returns all places in order. If rows failed, throws their error, or `backbone_unavailable` if
   * only some of the rows failed.
   */
  #whole(outcomes: readonly PromiseSettledResult<Appended>[]): Appended[] {
    const places = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    if (failures.length === 0) return places;
    const [first] = failures;
    const lost = failures.find((failure) => !(failure instanceof SyncError));
    if (lost !== undefined) throw lost;
    if (places.every(({ duplicate }) => duplicate)) throw first;
    throw unavailable(this.#what, `${places.length} of ${places.length + failures.length} rows were written`, first);
  }

  /**
   * By the room in the stream, and by a retirement of nothing, which the same server writes to the
   * same disk.
   */
  async probe(bytes: number): Promise<void> {
    const sent = { bytes };
    const { log, retiredSubject } = this.#names;
    await this.keeper.call(async (session) => {
      const size = Math.min(bytes, Math.floor(session.limitBytes / 2));
      const { config, state } = await session.info();
      if (config.max_bytes > 0 && state.bytes + size > config.max_bytes) {
        throw unwritable(this.#what, new Error(`the stream ${log} is full: its max_bytes is ${config.max_bytes}`));
      }
      const { seq } = await session.publishBeside('retired', retiredSubject, '[]'.padEnd(size));
      await session.remove('retired', seq);
    }, sent);
  }

  /**
   * By the limit of the stream: its servers refuse the presence of an instance where they have no
   * room themselves.
   */
  async room(): Promise<number | undefined> {
    const { config, state } = await this.keeper.call((session) => session.info());
    return config.max_bytes > 0 ? config.max_bytes - state.bytes : undefined;
  }

  protected async rowsAfter(after: number, limit: number): Promise<readonly StoredRow[]> {
    const known = this.keeper.head;
    const deadline = performance.now() + this.#callMs;
    for (;;) {
      const rows = await this.#rows(after + 1, limit);
      const last = rows.at(-1);
      // A replica of the stream may lag behind: wait until it has the rows that are known to exist.
      const isFull = rows.length >= limit || sizeOf(rows) >= PAGE_CHARS;
      if (after >= known || isFull || (last?.seq ?? 0) >= known || performance.now() > deadline) return rows;
      await sleep(20, AbortSignal.timeout(this.#callMs));
    }
  }

  /**
   * NATS cannot look into messages: they come here, and no more of them than one page of a scan
   * has.
   */
  protected async look(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]> {
    const rows = 'after' in from ? await this.rowsAfter(from.after, limit) : await this.#rowsBefore(from.before, limit);
    const looked: ScannedRow[] = [];
    let chars = 0;
    for (const row of rows) {
      looked.push(scannedRow(row, filter));
      chars += row.body.length;
      if (chars >= SCAN_CHARS) break;
    }
    return looked;
  }

  /** Rows before a position, newest first; fewer than `limit` if they are large. */
  async #rowsBefore(before: number, limit: number): Promise<StoredRow[]> {
    const { state } = await this.keeper.call((session) => session.info());
    const first = Math.max(state.first_seq, 1);
    const rows: StoredRow[] = [];
    let chars = 0;
    let width = FIRST_WINDOW;
    // NATS reads only forwards: window by window, wider ones after some that had little, since
    // dropped rows leave gaps.
    for (let end = Math.min(before, state.last_seq + 1); end > first && rows.length < limit && chars < SCAN_CHARS; ) {
      const from = Math.max(end - width, first);
      const window: StoredRow[] = [];
      for (let at = from; at < end; ) {
        const page = (await this.#rows(at, Math.min(end - at, PAGE))).filter(({ seq }) => seq < end);
        window.push(...page);
        const last = page.at(-1);
        if (last === undefined) break;
        at = last.seq + 1;
      }
      const size = sizeOf(window);
      rows.push(...window.reverse());
      chars += size;
      end = from;
      if (size < SCAN_CHARS / 16) width *= 4;
    }
    return rows.slice(0, limit);
  }

  /**
   * Appends the seqs to the stream of retirements; the time of the message is the time of the
   * retirement.
   */
  async retire(seqs: readonly number[]): Promise<void> {
    for (let at = 0; at < seqs.length; at += RETIRED_AT_ONCE) {
      const body = JSON.stringify(seqs.slice(at, at + RETIRED_AT_ONCE));
      await this.keeper.call((session) => session.publishBeside('retired', this.#names.retiredSubject, body));
    }
  }

  async dropRetired(beforeMs: number): Promise<number> {
    const { rowSubject } = this.#names;
    const kinds: readonly RowKind[] = ['update', 'base', 'policy'];
    // The last row of each kind stays: expectations are compared with it, and the newest of them
    // holds the head.
    const lasts = await Promise.all(
      kinds.map((kind) => this.keeper.call((session) => session.lastOf(rowSubject + kind))),
    );
    let dropped = 0;
    for (let from = 1; dropped < DROP_AT_LEAST; ) {
      const [record] = await this.keeper.call((session) => session.messagesBeside('retired', from, 1));
      if (record === undefined || record.time.getTime() >= beforeMs) break;
      dropped += await this.#dropRecord(record, new Set(lasts));
      from = record.seq + 1;
    }
    return dropped;
  }

  async #dropRecord(record: StoredMsg, lasts: ReadonlySet<number>): Promise<number> {
    const seqs = seqsOf(record);
    const kept = seqs.filter((seq) => lasts.has(seq));
    if (seqs.length > 0 && kept.length === seqs.length) return 0;
    let dropped = 0;
    for (const seq of seqs) {
      if (lasts.has(seq)) continue;
      if (await this.keeper.call((session) => session.remove('log', seq))) dropped++;
    }
    // Before the record is removed, so that a crash between the two loses no retirement.
    await this.retire(kept);
    await this.keeper.call((session) => session.remove('retired', record.seq));
    return dropped;
  }

  async *#retirements(): AsyncGenerator<StoredMsg> {
    for (let from = 1; ; ) {
      const page = await this.keeper.call((session) => session.messagesBeside('retired', from, PAGE));
      yield* page;
      const last = page.at(-1);
      if (last === undefined) return;
      from = last.seq + 1;
    }
  }

  async #rows(from: number, count: number): Promise<StoredRow[]> {
    const messages = await this.keeper.call((session) => session.messages(from, count));
    const rows: StoredRow[] = [];
    let chars = 0;
    // One after the other: a page of packed rows may be a hundred times as large.
    for (const message of messages) {
      const row = await this.#row(message);
      rows.push(row);
      chars += row.body.length;
      if (chars >= PAGE_CHARS) break;
    }
    return rows;
  }

  async #row({ seq, subject, time, header, data }: StoredMsg): Promise<StoredRow> {
    const isPacked = header?.get(ENCODING) === 'gzip';
    const text = isPacked
      ? await unpack(data, { maxOutputLength: MAX_ROW_BYTES }).catch((cause: unknown) => unreadable(seq, cause))
      : Buffer.from(data);
    const kind = subject.slice(this.#names.rowSubject.length) as RowKind;
    return { seq, kind, timeMs: Math.floor(time.getTime()), body: text.toString('utf8') };
  }

  /** Throws `backbone_replaced` if a seq was assigned a second time: the stream was recreated. */
  #checked(places: readonly Appended[], highest: number): readonly Appended[] {
    const again = places.find(({ seq, duplicate }) => !duplicate && seq <= highest);
    if (again !== undefined) throw replaced(this.#what, `place ${again.seq} was assigned a second time`);
    return places;
  }

  #checkSize(bytes: number, limitBytes: number): void {
    if (bytes < limitBytes - 1024) return; // the limit includes the headers
    throw new SyncError(
      'inline_data_too_large',
      `${this.#what}: an update of ${bytes} bytes (compressed) exceeds the server's max_payload of ${limitBytes} bytes`,
    );
  }
}

function unreadable(seq: number, cause: unknown): never {
  throw new SyncError('log_damaged', `record ${seq} of the update log cannot be unpacked`, { cause });
}

/**
 * Seqs of a record of retirement; of one in another form none: then their rows stay, which are
 * superseded in any case.
 */
function seqsOf(record: StoredMsg): readonly number[] {
  try {
    return retiredSeqs.parse(parseJson(record.string()));
  } catch {
    return [];
  }
}

function sizeOf(rows: readonly StoredRow[]): number {
  return rows.reduce((sum, { body }) => sum + body.length, 0);
}

interface Guard {
  readonly lastSequence?: number;
  readonly lastSubjectSequence?: number;
}

/** Publishes rows one after the other, up to the first failure. */
async function guarded(
  rows: readonly NewRow[],
  { kind, lastSeq }: Expectation,
  publish: (row: NewRow, index: number, guard: Guard) => Promise<Appended>,
): Promise<PromiseSettledResult<Appended>[]> {
  const outcomes: PromiseSettledResult<Appended>[] = [];
  let last = lastSeq;
  const firstOfKind = rows.findIndex((row) => row.kind === kind);
  for (const [index, row] of rows.entries()) {
    const ofKind = index === firstOfKind ? { lastSubjectSequence: lastSeq } : {};
    const guard = kind === 'any' ? { lastSequence: last } : ofKind;
    const [outcome] = await Promise.allSettled([publish(row, index, guard)]);
    outcomes.push(outcome);
    if (outcome.status === 'rejected') break;
    if (!outcome.value.duplicate) last = outcome.value.seq;
  }
  return outcomes;
}

async function encoded(text: string): Promise<{ body: Uint8Array; isPacked: boolean }> {
  const body = Buffer.from(text);
  if (body.length > MAX_ROW_BYTES) {
    throw new SyncError(
      'inline_data_too_large',
      `an update of ${body.length} bytes exceeds the ${MAX_ROW_BYTES} that a row may have`,
    );
  }
  return body.length > COMPRESS_BYTES ? { body: await pack(body), isPacked: true } : { body, isPacked: false };
}

function natsPresence(keeper: SessionKeeper<NatsSession>, names: NatsNames, what: string): Presence {
  const checkSize = (bytes: number, limitBytes: number): void => {
    if (bytes > limitBytes - 1024)
      throw new SyncError('inline_data_too_large', `${what}: presence of ${bytes} bytes exceeds max_payload`);
  };
  const partsOf = (instance: string): string => names.partsSubject + shortKey(instance);
  const numberOf = (subject: string): number => Number(subject.slice(subject.lastIndexOf('.') + 1));
  return {
    put: async (instance, text, ttlMs, ends = 0) => {
      const body = await pack(JSON.stringify({ instance, text, ttlMs }));
      const sent = { bytes: body.length };
      return await keeper.callAside(async (session) => {
        checkSize(body.length, session.limitBytes);
        await session.publishBeside('presence', names.presenceSubject + shortKey(instance), body);
        const subjects = await session.partsBelow(partsOf(instance));
        const more = subjects.filter((subject) => numberOf(subject) >= ends);
        if (more.length === subjects.length && more.length > 0) await session.dropParts(`${partsOf(instance)}.*`);
        else for (const subject of more) await session.dropParts(subject);
        return subjects.length - more.length;
      }, sent);
    },
    putParts: async (instance, parts) => {
      const all = [...parts];
      const sent = { bytes: all.reduce((sum, [, { length }]) => sum + length, 0), flushes: all.length };
      await keeper.callAside(async (session) => {
        for (let at = 0; at < all.length; at += PARTS_AT_ONCE) {
          const some = all.slice(at, at + PARTS_AT_ONCE).map(([number, text]) => {
            checkSize(text.length, session.limitBytes);
            return session.publishBeside('parts', `${partsOf(instance)}.${number}`, text);
          });
          await Promise.all(some);
        }
      }, sent);
    },
    parts: async (instance, numbers) => {
      const parts = new Map<number, string>();
      for (let at = 0; at < numbers.length; at += PARTS_AT_ONCE) {
        const subjects = numbers.slice(at, at + PARTS_AT_ONCE).map((number) => `${partsOf(instance)}.${number}`);
        for (const message of await keeper.callAside((session) => session.lastParts(subjects)))
          parts.set(numberOf(message.subject), message.string());
      }
      return parts;
    },
    list: async () => {
      const { ts } = await keeper.callAside((session) => session.infoBeside('presence'));
      const nowMs = ts === undefined ? Date.now() : Date.parse(ts); // the clock of the server, as in the times of messages
      const texts = new Map<string, PresenceText>();
      for (let from = 1; ; ) {
        const page = await keeper.callAside((session) => session.messagesBeside('presence', from, PAGE));
        for (const { data, time, subject } of page) {
          const unread = { instance: subject.slice(names.presenceSubject.length), text: '', ttlMs: UNREADABLE_MS };
          const { instance, text, ttlMs } = (await presenceIn(data)) ?? unread;
          const leftMs = time.getTime() + ttlMs - nowMs;
          if (leftMs > 0) texts.set(instance, { text, leftMs });
        }
        const last = page.at(-1);
        if (last === undefined) return texts;
        from = last.seq + 1;
      }
    },
  };
}

/** What a message of presence says; undefined: it cannot be read. */
async function presenceIn(data: Uint8Array): Promise<z.infer<typeof presenceMessage> | undefined> {
  try {
    return presenceMessage.parse(parseJson(String(await unpack(data, { maxOutputLength: MAX_PRESENCE_BYTES }))));
  } catch {
    return undefined;
  }
}
