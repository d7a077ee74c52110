import { randomUUID } from 'node:crypto';
import { type Logger, redactUrl } from '../lib/log.js';
import type { Publication, PublicationData } from '../pubsub/hub.js';
import type { DataUpdate } from '../wire/data.js';
import { expandTopics } from '../wire/topics.js';
import type { LogRecord, NewRecord, UpdateLog } from './log/update-log.js';
import { checkUpdate } from './update-rules.js';
import { extendedUpdateText, opalUpdateText } from './update-text.js';

/** Delivers to the subscribers of this process; answers how many connections there are on these topics. */
export interface Delivery {
  publish(publication: Publication): number;
}

/** What a publisher is told: the update is durable and has been handed to the subscribers that are here. */
export interface Published {
  /** The update's id: the publisher's, or one made here. */
  id: string;
  /** Its place in the log of this epoch. */
  seq: number;
  epoch: string;
  /** Connections that it was handed to; the others catch up when they return. */
  subscribers: number;
}

/** The one way in for data updates, from HTTP and from sockets. */
export interface Publisher {
  /**
   * Checks, records, delivers, in this order (design 3). `publisher` is the subject of the caller's token. Throws
   * `request_invalid` (nothing recorded) and `log_unwritable` (nothing delivered).
   */
  publish(update: DataUpdate, publisher: string | null): Promise<Published>;
}

/** Makes the {@link Publisher} of a server. */
export function createPublisher(deps: { updateLog: UpdateLog; hub: Delivery; log: Logger }): Publisher {
  const { updateLog, hub, log } = deps;
  // Resolves when everything that was appended before is delivered. Appends get their places in the order of the calls,
  // so deliveries that wait for the one before go out in seq order, however the log bundles its writes.
  let lastDelivery: Promise<unknown> = Promise.resolve();

  async function appendAndDeliver(record: NewRecord, before: Promise<unknown>): Promise<Published> {
    const startedMs = performance.now();
    const [appended] = await Promise.allSettled([updateLog.append(record), before]);
    if (appended.status === 'rejected') throw appended.reason;
    const published = deliver(appended.value);
    log.info(
      { ...logFields(appended.value), ...published, duration_ms: elapsedMs(startedMs) },
      'data update published',
    );
    return published;
  }

  function deliver(record: LogRecord): Published {
    const subscribers = hub.publish({
      topics: [...new Set(record.entries.flatMap((entry) => entry.topics))],
      ...updateTexts(record, updateLog.epoch),
      limitedTo: limitedTexts(record, updateLog.epoch),
    });
    return { id: record.id, seq: record.seq, epoch: updateLog.epoch, subscribers };
  }

  return {
    publish: async (update, publisher) => {
      checkUpdate(update);
      const published = appendAndDeliver(newRecord(update, publisher), lastDelivery);
      lastDelivery = Promise.allSettled([published]);
      return published;
    },
  };
}

function updateTexts(record: LogRecord, epoch: string): PublicationData {
  return { text: opalUpdateText(record), extendedText: extendedUpdateText(record, epoch) };
}

/**
 * An update whose entries have different topics, for subscribers that are limited to some: an entry of no topic of theirs is not
 * in it. Undefined where all entries have the same topics: whoever may see one may see them all.
 */
function limitedTexts(record: LogRecord, epoch: string): Publication['limitedTo'] {
  if (new Set(record.entries.map(({ topics }) => topics.toSorted().join('\n'))).size <= 1) return undefined;
  const known = new Map<string, PublicationData>();
  return (permitted) => {
    const kept = record.entries.map(({ topics }) => topics.some((topic) => permitted.has(topic)));
    const key = kept.map(Number).join('');
    const data = known.get(key) ?? updateTexts({ ...record, entries: record.entries.filter((_, i) => kept[i]) }, epoch);
    known.set(key, data);
    return data;
  };
}

function newRecord(update: DataUpdate, publisher: string | null): NewRecord {
  return {
    // 32 hex digits, as OPAL makes its ids (protocol-facts 0.2).
    id: update.id ?? randomUUID().replaceAll('-', ''),
    publisher,
    reason: update.reason ?? null,
    entries: update.entries.map((entry) => ({ ...entry, topics: expandTopics(entry.topics) })),
    callbacks: update.callback?.callbacks ?? [],
  };
}

/** What the server logs of an update (spec "Events"); header values and inline data stay out. */
function logFields(record: LogRecord): object {
  return {
    update_id: record.id,
    reason: record.reason,
    publisher: record.publisher,
    entries: record.entries.map((entry) => ({
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
