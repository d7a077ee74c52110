/** Maximum number of unused ids that one subject keeps. */
const MAX_KEPT_OF_SUBJECT = 1000;

/** The stored form of a claim. */
export interface IdClaim {
  readonly id: string;
  readonly subject: string;
  /** When the subject first used the id, in milliseconds since 1970. */
  readonly sinceMs: number;
}

interface Claim {
  sinceMs: number;
  /** When it expires; null: it is in use here. */
  untilMs: number | null;
}

/**
 * The subject that each client id belongs to: the one that used it first, while it uses it and for
 * `memoryMs` afterwards. Tokens without a subject (authentication is off) claim nothing.
 */
export class IdClaims {
  readonly #memoryMs: number;
  readonly #onChange: () => void;
  readonly #byId = new Map<string, Map<string, Claim>>();
  /** Unused ids by subject, the last used at the end. */
  readonly #kept = new Map<string, Set<string>>();

  /** `onChange` is called when {@link list} has changed. */
  constructor(
    options: { readonly memoryMs: number; readonly onChange?: () => void },
    kept: readonly IdClaim[] = [],
    nowMs = Date.now(),
  ) {
    this.#memoryMs = options.memoryMs;
    this.#onChange = options.onChange ?? (() => undefined);
    for (const { id, subject, sinceMs } of kept) this.#keep(id, subject, { sinceMs, untilMs: nowMs + this.#memoryMs });
  }

  /** Marks an id as in use until {@link release}. Returns when the subject first used it. */
  use(id: string, subject: string | null, nowMs: number): number {
    if (subject === null) return nowMs;
    const claim = this.#claim(id, subject) ?? { sinceMs: nowMs, untilMs: null };
    claim.untilMs = null;
    this.#set(id, subject, claim);
    this.#unkeep(id, subject);
    return claim.sinceMs;
  }

  /** Marks an id as no longer in use by a subject. */
  release(id: string, subject: string | null, nowMs: number): void {
    const claim = subject === null ? undefined : this.#claim(id, subject);
    if (subject === null || claim === undefined) return;
    this.#keep(id, subject, { sinceMs: claim.sinceMs, untilMs: nowMs + this.#memoryMs });
    this.#forgetOld(nowMs);
  }

  /** Adds a claim of another instance; the earlier of two times counts. */
  learn({ id, subject, sinceMs }: IdClaim, nowMs: number): void {
    const claim = this.#claim(id, subject);
    if (claim === undefined) this.#keep(id, subject, { sinceMs, untilMs: nowMs + this.#memoryMs });
    else {
      const earlier = Math.min(claim.sinceMs, sinceMs);
      if (claim.untilMs === null) this.#set(id, subject, { sinceMs: earlier, untilMs: null });
      else this.#keep(id, subject, { sinceMs: earlier, untilMs: nowMs + this.#memoryMs });
    }
  }

  /** Returns the owner of an id; undefined: it has none. */
  ownerOf(id: string, nowMs: number): string | undefined {
    let owner: string | undefined;
    let since = Number.POSITIVE_INFINITY;
    for (const [subject, { sinceMs, untilMs }] of this.#byId.get(id) ?? []) {
      if (untilMs !== null && untilMs <= nowMs) continue;
      if (sinceMs > since || (sinceMs === since && owner !== undefined && subject > owner)) continue;
      owner = subject;
      since = sinceMs;
    }
    return owner;
  }

  /** Returns all valid claims, for storage. */
  list(nowMs: number): IdClaim[] {
    this.#forgetOld(nowMs);
    return [...this.#byId].flatMap(([id, claims]) =>
      [...claims].map(([subject, { sinceMs }]) => ({ id, subject, sinceMs })),
    );
  }

  #claim(id: string, subject: string): Claim | undefined {
    return this.#byId.get(id)?.get(subject);
  }

  #set(id: string, subject: string, claim: Claim): void {
    const claims = this.#byId.get(id) ?? new Map<string, Claim>();
    const isNew = claims.get(subject)?.sinceMs !== claim.sinceMs;
    claims.set(subject, claim);
    this.#byId.set(id, claims);
    if (isNew) this.#onChange();
  }

  #keep(id: string, subject: string, claim: Claim): void {
    this.#set(id, subject, claim);
    this.#unkeep(id, subject);
    const ids = this.#kept.get(subject) ?? new Set<string>();
    ids.add(id);
    this.#kept.set(subject, ids);
    const [oldest] = ids;
    if (ids.size > MAX_KEPT_OF_SUBJECT && oldest !== undefined) this.#forget(oldest, subject);
  }

  #unkeep(id: string, subject: string): void {
    const ids = this.#kept.get(subject);
    if (ids?.delete(id) && ids.size === 0) this.#kept.delete(subject);
  }

  #forget(id: string, subject: string): void {
    this.#unkeep(id, subject);
    const claims = this.#byId.get(id);
    if (claims?.delete(subject) && claims.size === 0) this.#byId.delete(id);
    this.#onChange();
  }

  #forgetOld(nowMs: number): void {
    for (const [subject, ids] of this.#kept) {
      for (const id of ids) {
        if ((this.#claim(id, subject)?.untilMs ?? 0) > nowMs) break;
        this.#forget(id, subject);
      }
    }
  }
}
