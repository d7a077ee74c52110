/** The limit grows to this multiple of the setting. */
const GROWTH = 4;

/**
 * How long a remote may be silent: as long as the setting says; after a fetch that was ended for its silence, twice as long; and once a
 * fetch has succeeded, twice its longest silence. So a dead connection is noticed soon, and a slow remote gets the time that it needs.
 */
export class SilenceLimit {
  readonly #settingMs: number;
  #ms: number;

  constructor(settingMs: number) {
    this.#settingMs = settingMs;
    this.#ms = settingMs;
  }

  /** In milliseconds; never less than the setting, nor more than four times that. */
  get ms(): number {
    return this.#ms;
  }

  /** A fetch was ended for its silence. */
  ended(): void {
    this.#set(this.#ms * 2);
  }

  /** A fetch succeeded; its longest silence. */
  sufficed(longestMs: number): void {
    this.#set(longestMs * 2);
  }

  #set(ms: number): void {
    this.#ms = Math.min(Math.max(ms, this.#settingMs), this.#settingMs * GROWTH);
  }
}
