import { SyncError } from '../../src/lib/errors.js';
import type { Presence, PresenceText } from '../../src/server/log/log-store.js';

/** A backbone's presence, in memory, with a clock of its own. */
export class SharedPresence {
  down = false;
  /** Instances that do not reach it. */
  readonly cutOff = new Set<string>();
  readonly texts = new Map<string, { text: string; untilMs: number }>();
  /** By instance, then by number. */
  readonly parts = new Map<string, Map<number, string>>();
  /** What was written so far: texts, parts, and the characters of both. */
  written = { texts: 0, parts: 0, chars: 0 };
  /** Parts that were read. */
  read = 0;
  #nowMs = 0;

  /** As an instance sees it. */
  of(name: string): Presence {
    const check = (): void => {
      if (this.down || this.cutOff.has(name)) throw new SyncError('backbone_unavailable', 'away');
    };
    return {
      put: async (instance, text, ttlMs, ends = 0) => {
        check();
        this.texts.set(instance, { text, untilMs: this.#nowMs + ttlMs });
        this.#wrote('texts', [text]);
        const kept = new Map([...(this.parts.get(instance) ?? [])].filter(([number]) => number < ends));
        this.parts.set(instance, kept);
        return kept.size;
      },
      list: async () => {
        check();
        return this.live();
      },
      putParts: async (instance, parts) => {
        check();
        this.parts.set(instance, new Map([...(this.parts.get(instance) ?? []), ...parts]));
        this.#wrote('parts', [...parts.values()]);
      },
      parts: async (instance, numbers) => {
        check();
        this.read += numbers.length;
        const found = this.parts.get(instance);
        return new Map(numbers.flatMap((number) => (found?.has(number) ? [[number, found.get(number) ?? '']] : [])));
      },
    };
  }

  live(): Map<string, PresenceText> {
    const found = new Map<string, PresenceText>();
    for (const [instance, { text, untilMs }] of this.texts) {
      if (untilMs > this.#nowMs) found.set(instance, { text, leftMs: untilMs - this.#nowMs });
    }
    return found;
  }

  pass(ms: number): void {
    this.#nowMs += ms;
  }

  #wrote(what: 'texts' | 'parts', texts: readonly string[]): void {
    const chars = texts.reduce((sum, { length }) => sum + length, 0);
    this.written = { ...this.written, [what]: this.written[what] + texts.length, chars: this.written.chars + chars };
  }
}
