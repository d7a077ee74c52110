import type { PolicyStanding } from '../../wire/session.js';
import { cut } from './failures.js';

/** A place in the policy repository. */
export interface PolicyPlace {
  readonly file?: string | undefined;
  readonly row?: number | undefined;
}

/** Which commit is wanted, which one the engine holds, and why they differ. */
export class PolicyTracker {
  #wanted: string | null = null;
  #held: string | null = null;
  #error: PolicyStanding['error'] = null;
  #sinceMs: number | null = null;

  get standing(): PolicyStanding {
    return { wanted: this.#wanted, held: this.#held, error: this.#error, since: this.#sinceMs };
  }

  /** The server names a commit as its newest. Answers whether it is another one than before. */
  wants(commit: string): boolean {
    const isNew = this.#wanted !== commit;
    this.#wanted = commit;
    return isNew;
  }

  /** The engine holds a commit; undefined: one that is not known. */
  holds(commit: string | undefined): void {
    const held = commit === undefined || commit === '' ? null : commit;
    if (held !== this.#held || this.#error !== null || this.#sinceMs === null) this.#sinceMs = Date.now();
    this.#held = held;
    this.#error = null;
  }

  /** Bringing a commit in failed, at a place of the repository where one is known; it may be tried again. */
  failed(commit: string, error: string, { file, row }: PolicyPlace): void {
    if (commit !== '' && commit !== this.#held) this.#wanted = commit;
    if (this.#error === null) this.#sinceMs = Date.now();
    this.#error = { message: cut(error), file: file === undefined ? null : cut(file), line: row ?? null };
  }
}
