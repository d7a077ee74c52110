/** Maximum number of clients that are away. */
const MAX_AWAY = 10_000;

/** Clients that are away, oldest first. Beyond the limit, the subject with the most loses its oldest: no subject can evict others. */
export class AwayClients {
  readonly #max: number;
  readonly #subjectOf = new Map<string, string | null>();
  readonly #bySubject = new Map<string | null, Set<string>>();

  constructor(max = MAX_AWAY) {
    this.#max = max;
  }

  add(key: string, subject: string | null): void {
    this.delete(key);
    this.#subjectOf.set(key, subject);
    const keys = this.#bySubject.get(subject) ?? new Set<string>();
    keys.add(key);
    this.#bySubject.set(subject, keys);
  }

  delete(key: string): void {
    const subject = this.#subjectOf.get(key);
    if (subject === undefined) return;
    this.#subjectOf.delete(key);
    const keys = this.#bySubject.get(subject);
    if (keys?.delete(key) && keys.size === 0) this.#bySubject.delete(subject);
  }

  /** Removes clients that are too old or beyond the limit. */
  trim(isTooOld: (key: string) => boolean, forget: (key: string) => void): void {
    const drop = (key: string): void => {
      this.delete(key);
      forget(key);
    };
    for (const key of this.#subjectOf.keys()) {
      if (!isTooOld(key)) break;
      drop(key);
    }
    while (this.#subjectOf.size > this.#max) {
      let most: Set<string> | undefined;
      for (const keys of this.#bySubject.values()) if (keys.size > (most?.size ?? 0)) most = keys;
      const [oldest] = most ?? [];
      if (oldest === undefined) return;
      drop(oldest);
    }
  }
}
