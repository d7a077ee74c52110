import { MAX_MISSING, type PolicyState } from '../../wire/session.js';
import { cut } from './failures.js';

/**
 * A place in the policy repository, and what is wrong: in words of its own, so that nobody takes
 * them apart.
 */
export interface PolicyProblem {
  readonly file?: string | undefined;
  readonly row?: number | undefined;
  /** Without the place. Undefined: there is only the whole text of the error. */
  readonly message?: string | undefined;
}

/** Tracks which commit is wanted, which one the engine holds, and why they differ. */
export class PolicyTracker {
  #wanted: string | null = null;
  #held: string | null = null;
  #error: PolicyState['error'] = null;
  #sinceMs: number | null = null;
  #missing: readonly string[] = [];

  get state(): PolicyState {
    const missing = this.#missing.slice(0, MAX_MISSING).map(cut);
    return {
      wanted: this.#wanted,
      held: this.#held,
      error: this.#error,
      since: this.#sinceMs,
      ...(missing.length > 0 && { missing }),
    };
  }

  /**
   * These subscribed directories are not in the commit that is held. Returns whether they are
   * others than before.
   */
  lacks(directories: readonly string[]): boolean {
    const isNew = directories.join('\0') !== this.#missing.join('\0');
    this.#missing = directories;
    return isNew;
  }

  /** The server names a commit as its newest. Returns whether it differs from the one before. */
  wants(commit: string): boolean {
    const isNew = this.#wanted !== commit;
    this.#wanted = commit;
    return isNew;
  }

  /** The engine holds a commit; undefined: an unknown one. */
  holds(commit: string | undefined): void {
    const held = commit === undefined || commit === '' ? null : commit;
    if (held !== this.#held || this.#error !== null || this.#sinceMs === null) this.#sinceMs = Date.now();
    this.#held = held;
    this.#error = null;
  }

  /**
   * A commit could not be applied, because of a place in the repository if one is known. It may be
   * tried again.
   */
  failed(commit: string, error: string, { file, row, message = error }: PolicyProblem): void {
    if (commit !== '' && commit !== this.#held) this.#wanted = commit;
    if (this.#error === null) this.#sinceMs = Date.now();
    this.#error = { message: cut(message), file: file === undefined ? null : cut(file), line: row ?? null };
  }
}
