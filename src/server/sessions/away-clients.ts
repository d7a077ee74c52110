/** Clients that left and are still listed. */
const MAX_AWAY = 10_000;

/**
 * Clients that are away, in the order in which they left. Beyond the bound those of the subject that has the most are forgotten, the
 * oldest first: one subject must not push out those of the others.
 */
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

  /** Forgets what is too old, and what is too much. */
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
