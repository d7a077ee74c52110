import { createHash } from 'node:crypto';
import { hexId } from '../lib/hex-id.js';
import { printJson } from '../lib/json-text.js';
import { type Logger, redactUrl } from '../lib/log.js';
import { inSpan, type TraceSpan, type Tracing } from '../lib/tracing.js';
import type { Publication, PublicationData, Subscriber } from '../pubsub/hub.js';
import type { DataUpdate } from '../wire/data.js';
import { expandTopics } from '../wire/topics.js';
import { byOurClock } from './log/log-clock.js';
import type { FoldedEntry, LogRecord, NewRecord, Recorded, Retain, UpdateLog } from './log/update-log.js';
import type { MayHave } from './may-have.js';
import type { RefreshPart } from './refresh.js';
import type { TraceMemory } from './trace/change-times.js';
import { checkInlineData, checkUpdate } from './update-rules.js';
import { extendedUpdateText, opalUpdateText } from './update-text.js';

/**
 * Publishers on a socket. As in OPAL, they are not notified of their own updates. Another publisher may use the same id, so the
 * entries must match too; each publish matches once.
 */
export class OwnEvents {
  readonly #byId = new Map<string, Set<{ readonly entries: string; readonly publisher: Subscriber }>>();

  /** Expects the delivery of a record. Returns a function that cancels the expectation. */
  expect({ id, entries }: Pick<NewRecord, 'id' | 'entries'>, publisher: Subscriber): () => void {
    const expected = { entries: printJson(entries), publisher };
    const waiting = this.#byId.get(id) ?? new Set();
    this.#byId.set(id, waiting.add(expected));
    return () => this.#forget(id, expected);
  }

  /** Returns the publisher of a record that is being delivered, if one is expected. */
  publisherOf({ id, entries }: LogRecord): Subscriber | undefined {
    const waiting = this.#byId.get(id);
    if (waiting === undefined) return undefined;
    const printed = printJson(entries);
    const found = [...waiting].find((expected) => expected.entries === printed);
    if (found !== undefined) this.#forget(id, found);
    return found?.publisher;
  }

  #forget(id: string, expected: { readonly entries: string; readonly publisher: Subscriber }): void {
    const waiting = this.#byId.get(id);
    if (waiting?.delete(expected) && waiting.size === 0) this.#byId.delete(id);
  }
}

/** Delivers to the subscribers of this process. Returns the number of connections on these topics. */
export interface Delivery {
  publish(publication: Publication): number;
}

/** Result of a publish: the update is durable, and delivered to the subscribers of this instance. */
export interface Published {
  /** Update id, by the publisher or by the server. */
  id: string;
  /** Its position in the log of this epoch. */
  seq: number;
  epoch: string;
  /**
   * Number of connections that it was delivered to; other clients catch up later. Under an `Idempotency-Key`: of subscribers that it concerned
   * when it was recorded, with those of other instances, so that a repetition has the same number.
   */
  subscribers: number;
  /** True if it was published before under the same `Idempotency-Key`: nothing was recorded or delivered now. */
  replayed: boolean;
}

export interface PublisherOptions {
  /** SYNC_DATA_UPDATES_RETAIN_DEFAULT. Default: true. */
  readonly retainDefault?: Retain | undefined;
  /** SYNC_INLINE_DATA_LIMIT_BYTES. Default: none. */
  readonly inlineDataLimitBytes?: number | undefined;
}

export interface PublishOptions {
  /** The `Idempotency-Key` (design D27), and what counts the subscribers of other instances to topics. */
  readonly once?:
    | { readonly key: string; readonly elsewhere: (topics: ReadonlySet<string>) => Promise<number> }
    | undefined;
  /** A subscriber that does not get the update: the publisher itself, if its protocol expects that. */
  readonly except?: Subscriber | undefined;
  /** The span of the publisher, if it has one. */
  readonly traceparent?: string | undefined;
}

/** Entry point of all data updates, from HTTP and from sockets. */
export interface Publisher {
  /**
   * Validates, records, delivers, in this order (design D14). `publisher` is the subject of the caller's token. Rejects with
   * `request_invalid` or `inline_data_too_large` (nothing recorded), or like {@link UpdateLog.append}.
   */
  publish(update: DataUpdate, publisher: string | null, options?: PublishOptions): Promise<Published>;
  /**
   * Records and delivers again what `choose` selects from the fold, so that clients fetch it again. Each part is a separate update with
   * the same expiry as before. Returns these updates in order.
   */
  republish(
    choose: (fold: readonly FoldedEntry[]) => readonly RefreshPart[],
    reason: string | null,
    publisher: string | null,
  ): Promise<readonly (Published & { readonly entries: number })[]>;
}

/**
 * Creates the {@link Publisher} of a server, which from now on delivers each record of the log, of any instance, to the subscribers of this
 * process, in order of `seq`.
 */
export function createPublisher(
  deps: {
    updateLog: UpdateLog;
    hub: Delivery;
    /** Number of connections to this instance on these topics. */
    subscriberCount: (topics: readonly string[]) => number;
    /** Default: something may be anywhere. */
    mayHave?: MayHave;
    /** Notes when each update came how far. */
    times?: Pick<TraceMemory['updates'], 'reached'>;
    log: Logger;
    tracing?: Tracing | undefined;
  },
  { retainDefault = true, inlineDataLimitBytes = Number.POSITIVE_INFINITY }: PublisherOptions = {},
): Publisher {
  const { updateLog, hub, mayHave = () => true, subscriberCount, times, log, tracing } = deps;
  const ownEvents = new OwnEvents();
  updateLog.deliverTo((recorded) => {
    const span = notifySpan(tracing, recorded);
    const record = span === undefined ? recorded : { ...recorded, traceparent: span.traceparent };
    const texts = (of: LogRecord): PublicationData => updateTexts(of, updateLog.epoch, mayHave);
    const whole = texts(record);
    const durableMs = Date.now();
    const subscribers = hub.publish({
      topics: topicsOf(record),
      limitedTo: limitedTexts(record, texts),
      except: ownEvents.publisherOf(recorded),
      get text() {
        return whole.text;
      },
      get extendedText() {
        return whole.extendedText;
      },
    });
    span?.set({ 'policysync.subscribers': subscribers });
    span?.end();
    times?.reached(record.seq, 'durable', durableMs, { subscribers, id: record.id });
    times?.reached(record.seq, 'announced', Date.now());
    return subscribers;
  });

  async function record(fields: NewRecord, once?: { key: string; digest: string }): Promise<Published> {
    const [startedMs, receivedMs] = [performance.now(), Date.now()];
    const append = async (): Promise<{ record: Recorded; replayed: boolean }> =>
      once === undefined
        ? { record: await updateLog.append(fields), replayed: false }
        : await updateLog.appendOnce(fields, once);
    const { record: recorded, replayed } = await inSpan(tracing, 'append', { parent: fields.traceparent }, append);
    if (!replayed) times?.reached(recorded.seq, 'received', receivedMs);
    return published(recorded, replayed, startedMs);
  }

  function published(recorded: Recorded, replayed: boolean, startedMs: number): Published {
    const { id, seq, concerned, subscribers = 0 } = recorded;
    const result = { id, seq, epoch: updateLog.epoch, subscribers: concerned ?? subscribers, replayed };
    log.info({ ...logFields(recorded), ...result, duration_ms: elapsedMs(startedMs) }, 'data update published');
    return result;
  }

  return {
    publish: async (update, publisher, options = {}) => {
      checkUpdate(update);
      checkInlineData(update, inlineDataLimitBytes);
      const { once: asked, traceparent: parent } = options;
      const once = asked && { key: JSON.stringify([publisher, asked.key]), digest: digestOf(update) };
      const fields = newRecord(update, publisher, retainDefault);
      if (asked !== undefined) {
        const topics = topicsOf(fields);
        fields.concerned = subscriberCount(topics) + (await asked.elsewhere(new Set(topics)));
      }
      const attributes = { 'policysync.update_id': fields.id, 'policysync.entries': fields.entries.length };
      return await inSpan(tracing, 'publish', { parent, kind: 'server', attributes }, async (traceparent) => {
        if (traceparent !== undefined) fields.traceparent = traceparent;
        if (options.except === undefined) return await record(fields, once);
        // The delivery happens before the append resolves. If the append fails, the record may still be delivered
        // later: then to the publisher, too.
        const forget = ownEvents.expect(fields, options.except);
        try {
          return await record(fields, once);
        } finally {
          forget();
        }
      });
    },
    republish: async (choose, reason, publisher) => {
      const startedMs = performance.now();
      const records = await updateLog.appendFrom((fold) =>
        choose(fold).map(({ entries, expiresMs }) => {
          const retain =
            expiresMs === undefined ? true : Math.max(1, byOurClock(updateLog, expiresMs) - Date.now()) / 1000;
          return { id: hexId(), publisher, reason, entries, callbacks: [], retain };
        }),
      );
      return records.map((recorded) => ({
        ...published(recorded, false, startedMs),
        entries: recorded.entries.length,
      }));
    },
  };
}

/** The span of a delivery to the subscribers of this process; undefined without tracing, or for an update that belongs to no trace. */
function notifySpan(tracing: Tracing | undefined, { id, seq, traceparent }: LogRecord): TraceSpan | undefined {
  if (tracing === undefined || traceparent === undefined) return undefined;
  const attributes = { 'policysync.update_id': id, 'policysync.seq': seq };
  return tracing.start('notify', { parent: traceparent, kind: 'producer', attributes });
}

/** Equal for equal updates, whatever their formatting. */
function digestOf({ id, reason, entries, callback, retain }: DataUpdate): string {
  return createHash('sha256').update(printJson({ id, reason, entries, callback, retain })).digest('hex');
}

function topicsOf(record: Pick<NewRecord, 'entries'>): string[] {
  return [...new Set(record.entries.flatMap((entry) => entry.topics))];
}

/** Both texts, each printed when it is first needed. */
function updateTexts(record: LogRecord, epoch: string, mayHave: MayHave): PublicationData {
  let opal: string | undefined;
  let extended: string | undefined;
  return {
    get text() {
      opal ??= opalUpdateText(record, mayHave);
      return opal;
    },
    get extendedText() {
      extended ??= extendedUpdateText(record, epoch);
      return extended;
    },
  };
}

/**
 * The texts for subscribers that are limited to some topics: only with entries on these topics. Undefined if all entries have the same
 * topics, so that a subscriber may see all or none.
 */
function limitedTexts(record: LogRecord, texts: (of: LogRecord) => PublicationData): Publication['limitedTo'] {
  if (new Set(record.entries.map(({ topics }) => topics.toSorted().join('\n'))).size <= 1) return undefined;
  const known = new Map<string, PublicationData>();
  return (permitted) => {
    const kept = record.entries.map(({ topics }) => topics.some((topic) => permitted.has(topic)));
    const key = kept.map(Number).join('');
    const data = known.get(key) ?? texts(partOf(record, kept));
    known.set(key, data);
    return data;
  };
}

/** A record with some of its entries, and without the topics of the others. */
function partOf(record: LogRecord, kept: readonly boolean[]): LogRecord {
  const entries = record.entries.filter((_, index) => kept[index]);
  const topics = new Set(entries.flatMap((entry) => entry.topics));
  const prev = Object.fromEntries(Object.entries(record.prev ?? {}).filter(([topic]) => topics.has(topic)));
  return { ...record, entries, prev };
}

function newRecord(update: DataUpdate, publisher: string | null, retainDefault: Retain): NewRecord {
  const retain = update.retain ?? retainDefault;
  return {
    id: update.id ?? hexId(),
    publisher,
    reason: update.reason ?? null,
    entries: update.entries.map((entry) => ({ ...entry, topics: expandTopics(entry.topics) })),
    callbacks: update.callback?.callbacks ?? [],
    retain: retain === 0 ? false : retain,
  };
}

/** Logged entries of an update, which may have thousands. */
const LOGGED_ENTRIES = 10;

/** Log fields of an update (specification event.data-update), without header values and inline data. */
function logFields({ id, reason, publisher, entries }: LogRecord): object {
  return {
    update_id: id,
    reason,
    publisher,
    entry_count: entries.length,
    entries: entries.slice(0, LOGGED_ENTRIES).map((entry) => ({
      url: redactUrl(entry.url),
      method: entry.save_method,
      path: entry.dst_path,
      inline_data: entry.data !== null && entry.data !== undefined,
      topics: entry.topics,
    })),
  };
}

function elapsedMs(startedMs: number): number {
  return Math.round((performance.now() - startedMs) * 10) / 10;
}
