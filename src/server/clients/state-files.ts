/** A file of the state folder that cannot be written. */
export interface FailingFile {
  readonly file: string;
  /** Code of the system, such as ENOSPC: everyone sees this, and the message has the path. */
  readonly reason: string;
  /** In milliseconds since 1970. */
  readonly sinceMs: number;
}

/** The files that a server keeps beside its log, and which of them it cannot write. */
export class StateFiles {
  readonly #failing = new Map<string, FailingFile>();

  /** Records that a file was written. */
  wrote(file: string): void {
    this.#failing.delete(file);
  }

  /** Records that a file could not be written. Returns whether it could the time before. */
  failed(file: string, error: unknown): boolean {
    const before = this.#failing.get(file);
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'see the server log';
    this.#failing.set(file, { file, reason, sinceMs: before?.sinceMs ?? Date.now() });
    return before === undefined;
  }

  get failing(): readonly FailingFile[] {
    return [...this.#failing.values()];
  }
}
