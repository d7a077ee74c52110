import { SyncError } from '../../lib/errors.js';
import type { NewRecord } from './update-log.js';

/** Number of topics, and their characters. */
export interface TopicSizes {
  readonly count: number;
  readonly chars: number;
}

/** Topics of a log, of which each stays for good: clients compare with the last update on it. */
const TOPICS: TopicSizes = { count: 1_000_000, chars: 64 * 1024 * 1024 };

/** Bounds the topics of a log. */
export class TopicLimit {
  readonly #most: TopicSizes;

  constructor(most: TopicSizes = TOPICS) {
    this.#most = most;
  }

  /** Throws `too_many_topics` if a record has more new topics than there is room for. */
  check({ entries }: NewRecord, state: { readonly topics: TopicSizes; topicHead(topic: string): number }): void {
    let { count, chars } = state.topics;
    const added = new Set<string>();
    for (const { topics } of entries) {
      for (const topic of topics) {
        if (added.has(topic) || state.topicHead(topic) !== 0) continue;
        added.add(topic);
        count++;
        chars += topic.length;
        if (count > this.#most.count || chars > this.#most.chars) throw this.#refusal(topic);
      }
    }
  }

  #refusal(topic: string): SyncError {
    const shown = JSON.stringify(topic.slice(0, 100));
    return new SyncError(
      'too_many_topics',
      `the update log has ${this.#most.count} topics at most, and no room for ${shown}`,
    );
  }
}
