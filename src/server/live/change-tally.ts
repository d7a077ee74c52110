import type { TraceState } from '../../wire/trace.js';

/** In the order of their codes; 0 is for clients that the change does not concern. */
const STATES = [
  ...['applied', 'refused', 'failing', 'pending', 'not_heard', 'away', 'replaced', 'unknown'],
] as readonly TraceState[];
const APPLIED = STATES.indexOf('applied') + 1;
const FAILED = [STATES.indexOf('refused') + 1, STATES.indexOf('failing') + 1];
/** Added to the code of a client that counts for the convergence. */
const COUNTED = 16;

/** The clients of one change by state, kept current client by client: one byte for each. */
export class ChangeTally {
  #codes = new Uint8Array(64);
  readonly #counts = new Array<number>(STATES.length + 1).fill(0);

  /** Sets the state of a client; undefined: it is not concerned. Returns whether that is new. */
  set(client: number, state: TraceState | undefined, isCounted: boolean): boolean {
    const code = state === undefined ? 0 : STATES.indexOf(state) + 1 + (isCounted ? COUNTED : 0);
    if (client >= this.#codes.length) {
      const larger = new Uint8Array(Math.max(client + 1, this.#codes.length * 2));
      larger.set(this.#codes);
      this.#codes = larger;
    }
    const before = this.#codes[client] ?? 0;
    if (before === code) return false;
    this.#codes[client] = code;
    this.#add(before % COUNTED, -1);
    this.#add(code % COUNTED, 1);
    return true;
  }

  /** Whether the client counts for the convergence. */
  isCounted(client: number): boolean {
    return (this.#codes[client] ?? 0) > COUNTED;
  }

  /** Whether the client holds the change. */
  isApplied(client: number): boolean {
    return (this.#codes[client] ?? 0) % COUNTED === APPLIED;
  }

  /** Whether the client refuses the change, or fails with it. */
  hasFailed(client: number): boolean {
    return FAILED.includes((this.#codes[client] ?? 0) % COUNTED);
  }

  /** Clients by state, without those that the change does not concern. */
  get counts(): Record<string, number> {
    return Object.fromEntries(
      STATES.flatMap((state, index) => {
        const count = this.#counts[index + 1] ?? 0;
        return count > 0 ? [[state, count]] : [];
      }),
    );
  }

  get total(): number {
    return this.#counts.reduce((sum, count, code) => (code === 0 ? sum : sum + count), 0);
  }

  #add(code: number, by: number): void {
    this.#counts[code] = (this.#counts[code] ?? 0) + by;
  }
}
