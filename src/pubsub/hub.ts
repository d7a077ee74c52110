import { failureFields } from '../lib/errors.js';
import { type Logger, silentLogger } from '../lib/observe/log.js';
import { hexId } from '../lib/run/hex-id.js';
import { notifyFrame, type TextFrame, textFrame } from '../wire/frames.js';
import { ALL_TOPICS } from '../wire/topics.js';

/** A connection that receives publications. */
export interface Subscriber {
  /** True when the peer negotiated our extensions; it then gets `extendedText`. */
  readonly extended: boolean;
  /** The topics that it is limited to; undefined: any. */
  readonly permittedTopics?: ReadonlySet<string> | undefined;
  /**
   * Sends one text message without waiting. All subscribers share the bytes: they must not be
   * changed.
   */
  send(frame: TextFrame): void;
}

/**
 * The data of a publication. A text is read only when a subscriber needs it: a getter may print it
 * then.
 */
export interface PublicationData {
  /** As JSON text. */
  readonly text: string;
  /** For subscribers with our extensions, where it differs. */
  readonly extendedText?: string | undefined;
}

/** What {@link Hub.publish} sends. */
export interface Publication extends PublicationData {
  /** The topics that it is published on. */
  topics: readonly string[];
  /**
   * The data for a subscriber that is limited to topics, where it differs; the same object for the
   * same data.
   */
  limitedTo?: ((permitted: ReadonlySet<string>) => PublicationData) | undefined;
  /** A subscriber that does not get it: the publisher. */
  except?: Subscriber | undefined;
}

/** Topics and their subscribers in this process. Nothing is kept for disconnected subscribers. */
export interface Hub {
  subscribe(subscriber: Subscriber, topics: Iterable<string>): void;
  unsubscribe(subscriber: Subscriber, topics: Iterable<string>): void;
  /** Ends all subscriptions of a subscriber. */
  remove(subscriber: Subscriber): void;
  /** Number of subscribers that a publication on these topics reaches. */
  subscriberCount(topics: readonly string[]): number;
  /**
   * Sends the publication to every subscriber of one of its topics, once each, under the first of
   * its topics that they subscribe to; subscribers of all topics get it under the first one. Never
   * waits. Returns the number of subscribers.
   */
  publish(publication: Publication): number;
}

/**
 * Makes an empty hub. It encodes a frame once per topic and variant, with the same ids for the
 * whole publication (design D30). It logs and removes a subscriber that throws.
 */
export function createHub(log: Logger = silentLogger()): Hub {
  const byTopic = new Map<string, Set<Subscriber>>();
  const topicsOf = new Map<Subscriber, Set<string>>();
  /** Members of OPAL's frames; no client reads them. */
  const owner = { subscription: hexId(), subscriber: hexId() };

  function leave(subscriber: Subscriber, topic: string): void {
    const subscribers = byTopic.get(topic);
    if (subscribers?.delete(subscriber) && subscribers.size === 0) byTopic.delete(topic);
  }

  /** Subscribers of the topics, each once, with its topic. */
  function* reached(topics: readonly string[]): Generator<readonly [Subscriber, string]> {
    const seen = new Set<Subscriber>();
    const first = topics[0];
    if (first === undefined) return;
    for (const [bucket, topic] of [...topics.map((name) => [name, name] as const), [ALL_TOPICS, first] as const]) {
      for (const subscriber of byTopic.get(bucket) ?? []) {
        if (seen.has(subscriber)) continue;
        seen.add(subscriber);
        yield [subscriber, topic];
      }
    }
  }

  const hub: Hub = {
    subscribe(subscriber, topics) {
      const own = topicsOf.get(subscriber) ?? new Set();
      for (const topic of topics) {
        own.add(topic);
        const subscribers = byTopic.get(topic);
        if (subscribers === undefined) byTopic.set(topic, new Set([subscriber]));
        else subscribers.add(subscriber);
      }
      if (own.size > 0) topicsOf.set(subscriber, own);
    },
    unsubscribe(subscriber, topics) {
      const own = topicsOf.get(subscriber);
      for (const topic of topics) if (own?.delete(topic)) leave(subscriber, topic);
      if (own?.size === 0) topicsOf.delete(subscriber);
    },
    remove(subscriber) {
      for (const topic of topicsOf.get(subscriber) ?? []) leave(subscriber, topic);
      topicsOf.delete(subscriber);
    },
    subscriberCount(topics) {
      let count = 0;
      for (const _ of reached(topics)) count++;
      return count;
    },
    publish(publication) {
      const { topics, except } = publication;
      const frames = new Frames(publication, owner);
      let count = 0;
      for (const [subscriber, topic] of reached(topics)) {
        if (subscriber === except) continue;
        try {
          subscriber.send(frames.for(topic, subscriber));
          count++;
        } catch (error) {
          log.warn({ topic, ...failureFields(error) }, 'a subscriber failed and is removed');
          hub.remove(subscriber);
        }
      }
      return count;
    },
  };
  return hub;
}

/** Ids of a frame, which no client reads. */
type FrameIds = Parameters<typeof notifyFrame>[2];

/** The frames of one publication, each encoded once. */
class Frames {
  readonly #publication: Publication;
  readonly #ids: FrameIds;
  readonly #made = new Map<PublicationData, Map<string, TextFrame>>();

  constructor(publication: Publication, owner: Omit<FrameIds, 'call'>) {
    this.#publication = publication;
    this.#ids = { ...owner, call: hexId() };
  }

  for(topic: string, { extended, permittedTopics }: Subscriber): TextFrame {
    const { limitedTo } = this.#publication;
    const isLimited = permittedTopics !== undefined && limitedTo !== undefined;
    const data = isLimited ? limitedTo(permittedTopics) : this.#publication;
    const frames = this.#made.get(data) ?? new Map<string, TextFrame>();
    this.#made.set(data, frames);
    const ours = extended ? data.extendedText : undefined;
    const key = `${ours === undefined ? 'plain' : 'extended'} ${topic}`;
    let frame = frames.get(key);
    if (frame === undefined) {
      frame = textFrame(notifyFrame(topic, ours ?? data.text, this.#ids));
      frames.set(key, frame);
    }
    return frame;
  }
}
