import { type Failure, type FailureKind, MAX_FAILING, MAX_FAILING_TEXT } from '../../wire/session.js';

/** One thing that fails: what, why, of what kind, and since when (milliseconds since 1970). */
export interface Failing extends Failure {
  readonly kind: FailureKind;
  readonly since: number;
}

/** What fails now, by the id of the entry, the oldest first; texts have a bounded length. */
export class Failures {
  readonly #byId = new Map<string, Failing>();

  get all(): ReadonlyMap<string, Failing> {
    return this.#byId;
  }

  /** The oldest, as many as a report or an answer lists. */
  get listed(): Failing[] {
    return [...this.#byId.values()].slice(0, MAX_FAILING);
  }

  /** Adds a failure; one that exists keeps its time and its place. */
  failed(id: string, path: string, error: string, kind: FailureKind): void {
    this.#byId.set(id, { path: cut(path), error: cut(error), kind, since: this.#byId.get(id)?.since ?? Date.now() });
  }

  recovered(id: string): void {
    this.#byId.delete(id);
  }
}

/** A text of the length that reports and answers allow. */
export function cut(text: string): string {
  return text.length > MAX_FAILING_TEXT ? `${text.slice(0, MAX_FAILING_TEXT - 3)}...` : text;
}
