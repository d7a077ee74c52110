import type { Failure, FailureKind } from '../../wire/session.js';
import { MAX_FAILING, MAX_FAILING_TEXT } from '../../wire/session.js';
import type { EntryState } from '../desired/entry-state.js';

/** One thing that fails: what, why, of what kind, and when that began (milliseconds since 1970). */
export interface Failing {
  readonly path: string;
  readonly error: string;
  readonly kind: FailureKind;
  readonly sinceMs: number;
}

/** What fails now, by the id of the entry, the oldest first. */
export class Failures {
  readonly #byId = new Map<string, Failing>();

  get all(): ReadonlyMap<string, Failing> {
    return this.#byId;
  }

  /** It fails; one that fails already keeps its time and its place. */
  failed(id: string, path: string, error: string, kind: FailureKind): void {
    this.#byId.set(id, { path, error, kind, sinceMs: this.#byId.get(id)?.sinceMs ?? Date.now() });
  }

  mended(id: string): void {
    this.#byId.delete(id);
  }

  /** The oldest of them as they are told to others: bounded in number and in length. */
  get listed(): Failure[] {
    const first: Failure[] = [];
    for (const { path, error, kind, sinceMs } of this.#byId.values()) {
      if (first.length === MAX_FAILING) break;
      first.push({ path: cut(path), error: cut(error), kind, since: sinceMs });
    }
    return first;
  }
}

/** The kind of failure of an entry in a state. */
export function kindOf(state: EntryState): FailureKind {
  if (state.kind === 'blocked') return 'refused';
  return state.kind === 'ready' ? 'engine' : 'source';
}

/** A text as it is told to others. */
export function cut(text: string): string {
  return text.length > MAX_FAILING_TEXT ? `${text.slice(0, MAX_FAILING_TEXT - 3)}...` : text;
}
