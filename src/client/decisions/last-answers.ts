import type { EngineQuestion } from '../engine/decision-engine.js';
import type { Decision } from './decision.js';

/** Longest question that is kept, in characters: an answer to a larger one is not. */
const MAX_QUESTION_CHARS = 16 * 1024;

interface Kept {
  readonly decision: Decision;
  readonly atMs: number;
}

/** The last good answers by question, as many as {@link LastAnswers} may keep; the oldest goes first. */
export class LastAnswers {
  readonly #options: { readonly count: number; readonly maxAgeMs: number };
  readonly #now: () => number;
  readonly #kept = new Map<string, Kept>();

  /** `now`: a monotonic clock, in milliseconds. */
  constructor(options: { count: number; maxAgeMs: number }, now: () => number = () => performance.now()) {
    this.#options = options;
    this.#now = now;
  }

  keep(question: EngineQuestion, decision: Decision): void {
    const key = keyOf(question);
    if (key.length > MAX_QUESTION_CHARS) return;
    this.#kept.delete(key); // so that it is the newest
    this.#kept.set(key, { decision, atMs: this.#now() });
    if (this.#kept.size <= this.#options.count) return;
    const [oldest] = this.#kept.keys();
    if (oldest !== undefined) this.#kept.delete(oldest);
  }

  /** The last good answer to the same question, and its age; undefined if there is none, or it is too old. */
  find(question: EngineQuestion): { readonly decision: Decision; readonly ageMs: number } | undefined {
    const found = this.#kept.get(keyOf(question));
    if (found === undefined) return undefined;
    const ageMs = this.#now() - found.atMs;
    return ageMs > this.#options.maxAgeMs ? undefined : { decision: found.decision, ageMs };
  }
}

/** No path has a line end, so that no two questions have one key. */
function keyOf({ path, input }: EngineQuestion): string {
  return input === undefined ? path : `${path}\n${input}`;
}
