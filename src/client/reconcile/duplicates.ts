import { createHash } from 'node:crypto';

/** The same update on several topics of a server without seqs arrives within this time (opal-protocol P10.1). */
const WINDOW_MS = 5_000;

/**
 * Tells an update that arrives once for each of its topics from one that was published again: the same text on another
 * topic is the same update, the same text on the same topic is a new one.
 */
export class Duplicates {
  readonly #recent = new Map<string, { topics: Set<string>; atMs: number }>();

  /** True when this is the same update on another topic. */
  seen(topic: string, text: string, nowMs: number): boolean {
    for (const [key, { atMs }] of this.#recent) if (nowMs - atMs > WINDOW_MS) this.#recent.delete(key);
    const key = createHash('sha256').update(text).digest('base64url');
    const recent = this.#recent.get(key);
    if (recent !== undefined && !recent.topics.has(topic)) {
      recent.topics.add(topic);
      return true;
    }
    this.#recent.set(key, { topics: new Set([topic]), atMs: nowMs });
    return false;
  }
}
