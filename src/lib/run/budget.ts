import { SyncError } from '../errors.js';
import { networkOf } from '../net/address.js';

/** Whose bound is reached: that of one token, of one address, or of all callers together. */
export type Bound = 'subject' | 'address' | 'all';

/** How much there may be at a time: in all, of one token, of one address. */
export type Bounds = Readonly<Record<Bound, number>>;

/** Who takes. A caller without a token has an address alone. */
export interface Holder {
  readonly subject: string | null;
  readonly address: string;
}

/** What a budget is of, for messages. */
export interface BudgetAbout {
  /** As in `there may be no more <what>`. */
  readonly what: string;
  /** Setting that bounds it; undefined: none does. */
  readonly setting?: string;
}

/** A budget now. */
export interface BudgetState {
  readonly used: number;
  readonly limit: number;
  readonly perToken: number;
  readonly perAddress: number;
  /** How often a caller was refused. */
  readonly refused: number;
}

/** Gives back what was taken; a second call does nothing. */
export type Release = () => void;

/**
 * What one token, and one address, may have of the whole. A token has less than an address: others
 * at the same address (behind a load balancer, in the same network) go on beside it.
 */
const PARTS = { subject: 1 / 2, address: 3 / 4 };
/** `Retry-After` of a refusal. */
const RETRY_SECONDS = 1;

/** The bounds of a whole, of which one token and one address have at most a part. */
export function boundsOf(all: number, { subject, address } = PARTS): Bounds {
  return { all, subject: Math.ceil(all * subject), address: Math.ceil(all * address) };
}

interface Account {
  used: number;
  /** What counts once however often it is taken. */
  things: Map<object, { readonly amount: number; count: number }> | undefined;
}

const WHOSE: readonly Bound[] = ['subject', 'address', 'all'];

/**
 * How much of something callers have at a time: each token, each address, and all together. Nobody
 * waits: what does not fit is refused, and all others go on. An amount larger than a bound counts
 * as the bound, so that it is served when nothing else is under way.
 */
export class Budget {
  readonly bounds: Bounds;
  readonly #about: BudgetAbout;
  readonly #accounts = new Map<string, Account>();
  #refused = 0;

  constructor(bounds: Bounds, about: BudgetAbout) {
    this.bounds = bounds;
    this.#about = about;
  }

  get state(): BudgetState {
    const { all: limit, subject: perToken, address: perAddress } = this.bounds;
    return { used: this.#accounts.get('all')?.used ?? 0, limit, perToken, perAddress, refused: this.#refused };
  }

  /** What one holder has now, by its address. */
  ofAddress(address: string): number {
    return this.#accounts.get(`address ${networkOf(address)}`)?.used ?? 0;
  }

  /** Accounts that are kept now: of holders that have something. */
  get size(): number {
    return this.#accounts.size;
  }

  /**
   * Takes an amount, and returns what gives it back, or whose bound is reached. The same `thing`
   * (bytes that several responses share) counts once for each of them.
   */
  take(holder: Holder, amount: number, thing?: object): Release | Bound {
    for (const whose of WHOSE) {
      const key = keyOf(whose, holder);
      if (key === undefined) continue;
      const account = this.#accounts.get(key);
      if (account === undefined || (thing !== undefined && account.things?.has(thing))) continue;
      if (account.used + Math.min(amount, this.bounds[whose]) > this.bounds[whose]) return whose;
    }
    for (const whose of WHOSE) this.#add(whose, holder, amount, thing);
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      for (const whose of WHOSE) this.#remove(whose, holder, amount, thing);
    };
  }

  /**
   * Counts a refusal, and returns the error for it: 429 for one caller, 503 if all together have
   * too much.
   */
  refusal(bound: Bound, retryAfterSeconds = RETRY_SECONDS): SyncError {
    this.#refused++;
    const { what, setting } = this.#about;
    const whose = bound === 'subject' ? 'this token has' : bound === 'address' ? 'this address has' : undefined;
    const fact =
      whose === undefined
        ? `all callers together have too many ${what}`
        : `${whose} as many ${what} as one caller may have`;
    const text = setting === undefined ? fact : `${fact} (${setting})`;
    const options = { retryAfterSeconds, retryable: true, outside: text };
    return new SyncError(whose === undefined ? 'server_busy' : 'share_used_up', text, options);
  }

  #add(whose: Bound, holder: Holder, amount: number, thing: object | undefined): void {
    const key = keyOf(whose, holder);
    if (key === undefined) return;
    let account = this.#accounts.get(key);
    if (account === undefined) {
      account = { used: 0, things: undefined };
      this.#accounts.set(key, account);
    }
    const counted = Math.min(amount, this.bounds[whose]);
    if (thing !== undefined) {
      account.things ??= new Map();
      const known = account.things.get(thing);
      if (known !== undefined) {
        known.count++;
        return;
      }
      account.things.set(thing, { amount: counted, count: 1 });
    }
    account.used += counted;
  }

  #remove(whose: Bound, holder: Holder, amount: number, thing: object | undefined): void {
    const key = keyOf(whose, holder);
    const account = key === undefined ? undefined : this.#accounts.get(key);
    if (key === undefined || account === undefined) return;
    let freed = Math.min(amount, this.bounds[whose]);
    if (thing !== undefined) {
      const known = account.things?.get(thing);
      if (known === undefined || --known.count > 0) return;
      account.things?.delete(thing);
      freed = known.amount;
    }
    account.used -= freed;
    if (account.used <= 0 && (account.things?.size ?? 0) === 0) this.#accounts.delete(key);
  }
}

function keyOf(whose: Bound, { subject, address }: Holder): string | undefined {
  if (whose === 'all') return whose;
  if (whose === 'address') return `address ${networkOf(address)}`;
  return subject === null ? undefined : `subject ${subject}`;
}

/** Amounts up to this are small: there is room for them whatever the large ones do. */
export const SMALL_BYTES = 65_536;
const PART_OF_SMALL = 1 / 4;

/**
 * A budget of bytes. A quarter is for small amounts, so that a caller of large ones leaves room
 * even to those with its own token.
 */
export class ByteBudget {
  readonly small: Budget;
  readonly large: Budget;

  constructor(all: number, about: BudgetAbout) {
    const forSmall = Math.ceil(all * PART_OF_SMALL);
    this.small = new Budget(boundsOf(forSmall), about);
    this.large = new Budget(boundsOf(all - forSmall), about);
  }

  get state(): BudgetState {
    const [small, large] = [this.small.state, this.large.state];
    return {
      used: small.used + large.used,
      limit: small.limit + large.limit,
      perToken: small.perToken + large.perToken,
      perAddress: small.perAddress + large.perAddress,
      refused: small.refused + large.refused,
    };
  }

  /** As {@link Budget.take}. */
  take(holder: Holder, bytes: number, thing?: object): Release | Bound {
    return this.#of(bytes).take(holder, bytes, thing);
  }

  /** As {@link Budget.refusal}. */
  refusal(bound: Bound, bytes: number): SyncError {
    return this.#of(bytes).refusal(bound);
  }

  #of(bytes: number): Budget {
    return bytes <= SMALL_BYTES ? this.small : this.large;
  }
}

/** An amount of a budget that changes while it is held. */
export class Held {
  readonly #budget: Pick<Budget, 'take'>;
  readonly #holder: Holder;
  #amount = 0;
  #release: Release = () => undefined;

  constructor(budget: Pick<Budget, 'take'>, holder: Holder) {
    this.#budget = budget;
    this.#holder = holder;
  }

  /**
   * Holds another amount from now on. Returns whose bound is reached, and then holds what it held.
   */
  resize(amount: number): Bound | undefined {
    if (amount === this.#amount) return undefined;
    const before = this.#amount;
    this.release();
    if (amount === 0) return undefined;
    const taken = this.#budget.take(this.#holder, amount);
    if (typeof taken === 'function') {
      this.#release = taken;
      this.#amount = amount;
      return undefined;
    }
    this.resize(before);
    return taken;
  }

  /** Gives everything back. */
  release(): void {
    this.#release();
    this.#amount = 0;
    this.#release = () => undefined;
  }
}
