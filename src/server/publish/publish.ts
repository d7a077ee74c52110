import { createHash } from 'node:crypto';
import { SyncError } from '../../lib/errors.js';
import { printJson } from '../../lib/json/json-text.js';
import { type Logger, redactUrl } from '../../lib/observe/log.js';
import { inSpan, type TraceSpan, type Tracing } from '../../lib/observe/tracing.js';
import { hexId } from '../../lib/run/hex-id.js';
import type { Hub, Publication, PublicationData, Subscriber } from '../../pubsub/hub.js';
import type { DataUpdate } from '../../wire/data.js';
import { parseDocPath } from '../../wire/doc-path.js';
import { expandTopics } from '../../wire/topics.js';
import { deliver, type StageFeed } from '../changes/stages.js';
import { byOurClock } from '../log/log-clock.js';
import type { FoldedEntry, LogRecord, LogWriter, NewRecord, Recorded, Retain } from '../log/update-log.js';
import type { MayHave, StandsOver } from './may-have.js';
import type { RefreshPart } from './refresh.js';
import { checkInlineData, checkUpdate } from './update-rules.js';
import { extendedUpdateText, opalUpdateText } from './update-text.js';

/**
 * Publishers on a socket. As in OPAL, they are not notified of their own updates. Another publisher
 * may use the same id, so the entries must match too; each publish matches once.
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

/** The update is durable, and delivered to the subscribers of this instance. */
export interface Published {
  /** Update id, by the publisher or by the server. */
  id: string;
  /** Its position in the log of this epoch. */
  seq: number;
  epoch: string;
  /**
   * Number of connections that it was delivered to; other clients catch up later. Under an
   * `Idempotency-Key`: of subscribers that it concerned when it was recorded, with those of other
   * instances, so that a repetition has the same number.
   */
  subscribers: number;
  /** A repetition under the same `Idempotency-Key`: nothing was recorded or delivered now. */
  replayed: boolean;
}

export interface PublisherOptions {
  /** SYNC_DATA_UPDATES_RETAIN_DEFAULT. Default: true. */
  readonly retainDefault?: Retain | undefined;
  /** SYNC_INLINE_DATA_LIMIT_BYTES. Default: none. */
  readonly inlineDataLimitBytes?: number | undefined;
}

export interface PublishOptions {
  /** The `Idempotency-Key` (design D27), and what counts subscribers of other instances. */
  readonly once?:
    | { readonly key: string; readonly elsewhere: (topics: ReadonlySet<string>) => Promise<number> }
    | undefined;
  /** A subscriber that does not get it: the publisher itself, if its protocol expects that. */
  readonly except?: Subscriber | undefined;
  /** The span of the publisher, if it has one. */
  readonly traceparent?: string | undefined;
}

export interface PublisherDeps {
  readonly updateLog: LogWriter;
  readonly hub: Pick<Hub, 'publish' | 'subscriberCount'>;
  /** Default: something may be anywhere. */
  readonly mayHave?: MayHave;
  /** Default: something may be anywhere. */
  readonly standsOver?: StandsOver;
  readonly feed?: StageFeed;
  readonly log: Logger;
  readonly tracing?: Tracing | undefined;
}

/**
 * Entry point of all data updates, from HTTP and from sockets. From its creation on it delivers
 * each record of the log, of any instance, to the subscribers of this process, in order of `seq`.
 */
export class Publisher {
  readonly #retainDefault: Retain;
  readonly #inlineDataLimitBytes: number;
  readonly #deps: Required<Omit<PublisherDeps, 'tracing'>> & Pick<PublisherDeps, 'tracing'>;
  readonly #ownEvents = new OwnEvents();

  constructor(
    { retainDefault = true, inlineDataLimitBytes = Number.POSITIVE_INFINITY }: PublisherOptions,
    deps: PublisherDeps,
  ) {
    this.#retainDefault = retainDefault;
    this.#inlineDataLimitBytes = inlineDataLimitBytes;
    this.#deps = { mayHave: () => true, standsOver: () => true, feed: () => undefined, ...deps };
    deps.updateLog.deliverTo((record) => this.#deliver(record));
  }

  /**
   * Validates, records, delivers, in this order (design D14). `publisher` is the subject of the
   * caller's token. Rejects with `request_invalid` or `inline_data_too_large` (nothing recorded),
   * or like {@link LogWriter.append}.
   */
  async publish(update: DataUpdate, publisher: string | null, options: PublishOptions = {}): Promise<Published> {
    const startedMs = performance.now();
    const ended = (outcome: 'ok' | 'refused' | 'failed'): void =>
      this.#deps.feed({ of: 'publish', outcome, tookMs: performance.now() - startedMs });
    try {
      const published = await this.#publish(update, publisher, options);
      ended('ok');
      return published;
    } catch (error) {
      ended(error instanceof SyncError && error.status < 500 ? 'refused' : 'failed');
      throw error;
    }
  }

  /**
   * Records and delivers again what `choose` selects from the fold, so that clients fetch it again.
   * Each part is a separate update with the same expiry as before. Returns these updates in order.
   */
  async republish(
    choose: (fold: readonly FoldedEntry[]) => readonly RefreshPart[],
    reason: string | null,
    publisher: string | null,
  ): Promise<readonly (Published & { readonly entries: number })[]> {
    const { updateLog } = this.#deps;
    const startedMs = performance.now();
    const records = await updateLog.appendFrom((fold) =>
      choose(fold).map(({ entries, expiresMs }) => {
        const retain =
          expiresMs === undefined ? true : Math.max(1, byOurClock(updateLog, expiresMs) - Date.now()) / 1000;
        return { id: hexId(), publisher, reason, entries, callbacks: [], retain };
      }),
    );
    return records.map((recorded) => ({
      ...this.#published(recorded, false, startedMs),
      entries: recorded.entries.length,
    }));
  }

  async #publish(
    update: DataUpdate,
    publisher: string | null,
    { once: asked, except, traceparent: parent }: PublishOptions,
  ): Promise<Published> {
    const { hub, standsOver, tracing } = this.#deps;
    checkUpdate(update);
    checkInlineData(update, this.#inlineDataLimitBytes);
    const once = asked && { key: JSON.stringify([publisher, asked.key]), digest: digestOf(update) };
    const fields = newRecord(update, publisher, { retainDefault: this.#retainDefault, standsOver });
    if (asked !== undefined) {
      const topics = topicsOf(fields);
      fields.concerned = hub.subscriberCount(topics) + (await asked.elsewhere(new Set(topics)));
    }
    const attributes = { 'policysync.update_id': fields.id, 'policysync.entries': fields.entries.length };
    return await inSpan(tracing, 'publish', { parent, kind: 'server', attributes }, async (traceparent) => {
      if (traceparent !== undefined) fields.traceparent = traceparent;
      if (except === undefined) return await this.#record(fields, once);
      // The delivery happens before the append resolves. If the append fails, the record may still
      // be delivered later: then to the publisher, too.
      const forget = this.#ownEvents.expect(fields, except);
      try {
        return await this.#record(fields, once);
      } finally {
        forget();
      }
    });
  }

  async #record(fields: NewRecord, once?: { key: string; digest: string }): Promise<Published> {
    const { updateLog, tracing, feed } = this.#deps;
    const [startedMs, atMs] = [performance.now(), Date.now()];
    const append = async (): Promise<{ record: Recorded; replayed: boolean }> =>
      once === undefined
        ? { record: await updateLog.append(fields), replayed: false }
        : await updateLog.appendOnce(fields, once);
    const { record, replayed } = await inSpan(tracing, 'append', { parent: fields.traceparent }, append);
    if (!replayed) feed({ of: 'update', id: record.seq, name: 'received', atMs });
    return this.#published(record, replayed, startedMs);
  }

  #published(recorded: Recorded, replayed: boolean, startedMs: number): Published {
    const { updateLog, log } = this.#deps;
    const { id, seq, concerned, subscribers = 0 } = recorded;
    const result = { id, seq, epoch: updateLog.epoch, subscribers: concerned ?? subscribers, replayed };
    log.info({ ...logFields(recorded), ...result, duration_ms: elapsedMs(startedMs) }, 'data update published');
    return result;
  }

  /** Returns the number of connections that got the record. */
  #deliver(recorded: LogRecord): number {
    const { updateLog, hub, mayHave, tracing, feed } = this.#deps;
    const span = notifySpan(tracing, recorded);
    const record = span === undefined ? recorded : { ...recorded, traceparent: span.traceparent };
    const texts = (of: LogRecord): PublicationData => updateTexts(of, updateLog.epoch, mayHave);
    const whole = texts(record);
    const durableMs = Date.now();
    const publication: Publication = {
      topics: topicsOf(record),
      limitedTo: limitedTexts(record, texts),
      except: this.#ownEvents.publisherOf(recorded),
      get text() {
        return whole.text;
      },
      get extendedText() {
        return whole.extendedText;
      },
    };
    const subscribers = deliver(hub, publication, feed);
    span?.set({ 'policysync.subscribers': subscribers });
    span?.end();
    const { seq, id } = record;
    feed({ of: 'update', id: seq, name: 'durable', atMs: durableMs, about: { subscribers, id } });
    feed({ of: 'update', id: seq, name: 'announced', atMs: Date.now() });
    return subscribers;
  }
}

/** The span of a delivery; undefined without tracing, or if the update has no trace. */
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
 * The texts for subscribers that are limited to some topics: only with entries on these topics.
 * Undefined if all entries have the same topics, so that a subscriber may see all or none.
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

function newRecord(
  update: DataUpdate,
  publisher: string | null,
  { retainDefault, standsOver }: { retainDefault: Retain; standsOver: StandsOver },
): NewRecord {
  const retain = update.retain ?? retainDefault;
  return {
    id: update.id ?? hexId(),
    publisher,
    reason: update.reason ?? null,
    entries: update.entries.map((entry) => ({
      ...entry,
      topics: expandTopics(entry.topics),
      ...(entry.save_method === 'DELETE' && !standsOver(parseDocPath(entry.dst_path)) && { only_removes: true }),
    })),
    callbacks: update.callback?.callbacks ?? [],
    retain: retain === 0 ? false : retain,
  };
}

/** Logged entries of an update, which may have thousands. */
const LOGGED_ENTRIES = 10;

/** Log fields of an update (specification event.data-update), without headers and data. */
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
