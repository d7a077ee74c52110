import { type ChangeStep, MAX_STEPS, type PolicyState } from '../../wire/session.js';
import type { KnownEntry } from '../desired/entry-table.js';
import type { DataEvent } from '../status/data-events.js';

type Step = { -readonly [Key in keyof ChangeStep]: ChangeStep[Key] };

/** A data update that is under way. */
interface OpenUpdate {
  readonly step: Step;
  /** Its entries that the engine does not hold yet; true: the content is here. */
  readonly open: Map<KnownEntry, boolean>;
  /** The engine took one of its entries. */
  wasWritten: boolean;
  /**
   * A later change took the place of an entry before the engine had it; `unfetched`: before its
   * content was here.
   */
  dropped: 'none' | 'fetched' | 'unfetched';
  isSealed: boolean;
}

/** Commits of which a new server is told what became of them: the last ones. */
const TOLD_AGAIN = 10;
/** Most updates under way that are followed: of more, the first are forgotten. */
const MAX_OPEN = 1000;

/**
 * When this client heard of its last changes, fetched and applied them, for the server's
 * `GET /trace`. The memory is bounded, and nothing waits for it.
 */
export class ChangeSteps {
  readonly #now: () => number;
  /** By transaction, the oldest first. */
  readonly #updates = new Map<string, OpenUpdate>();
  /** What the server was not told yet, the oldest first. */
  readonly #untold = new Set<Step>();
  readonly #commits = new Map<string, Step>();
  #policy: PolicyState | undefined;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** What happened since the steps were taken last. Call `told` once the server has them. */
  take(): { readonly steps: ChangeStep[]; readonly told: () => void } {
    const taken = [...this.#untold].slice(-MAX_STEPS).map((step) => ({ step, copy: { ...step } }));
    return {
      steps: taken.map(({ copy }) => copy),
      told: () => {
        // One that went on meanwhile is told again.
        for (const { step, copy } of taken) if (isSame(step, copy)) this.#untold.delete(step);
      },
    };
  }

  /**
   * What became of the last commits is told again: a server that was started since knows nothing of
   * it.
   */
  tellAgain(): void {
    for (const step of [...this.#commits.values()].slice(-TOLD_AGAIN)) this.#tell(step);
  }

  /** Subscriber of `DataEvents`. */
  readonly onData = (event: DataEvent): void => {
    switch (event.kind) {
      case 'begun':
        if (event.update.seq !== undefined && !event.update.isLoad) this.#begin(event.transaction, event.update.seq);
        break;
      case 'named': {
        const update = this.#updates.get(event.transaction);
        const { known } = event;
        if (update === undefined) break;
        if (known === undefined) update.dropped = 'unfetched';
        else update.open.set(known, hasContent(known));
        break;
      }
      case 'sealed': {
        const update = this.#updates.get(event.transaction);
        if (update !== undefined) update.isSealed = true;
        this.#advance(event.transaction);
        break;
      }
      case 'settled':
      case 'forgotten':
        this.#entry(event.entry);
    }
  };

  /** The bundle of a commit is here. */
  policyFetched(commit: string): void {
    const step = this.#commit(commit);
    if (step.fetched !== undefined || step.applied !== undefined) return;
    step.fetched = this.#now();
    step.heard ??= step.fetched; // a client that has just connected asks without a notice
    this.#tell(step);
  }

  /** The policy stands like this now; call it after each change. */
  policyChanged(policy: PolicyState): void {
    const before = this.#policy;
    this.#policy = policy;
    const { wanted, held, error } = policy;
    if (wanted !== null && wanted !== before?.wanted) {
      const step = this.#comes(wanted);
      step.heard ??= this.#now();
      this.#tell(step);
    }
    if (held !== null && (held !== before?.held || (error === null && before.error !== null))) {
      const step = this.#commit(held);
      step.applied ??= this.#now();
      this.#tell(step);
    }
    if (wanted !== null && error !== null && error.message !== before?.error?.message) {
      const step = this.#commit(wanted);
      step.refused = this.#now();
      this.#tell(step);
    }
  }

  #begin(transaction: string, seq: number): void {
    const step: Step = { seq, heard: this.#now() };
    this.#updates.set(transaction, { step, open: new Map(), wasWritten: false, dropped: 'none', isSealed: false });
    const [oldest] = this.#updates.keys();
    if (this.#updates.size > MAX_OPEN && oldest !== undefined) this.#updates.delete(oldest);
  }

  #entry(entry: KnownEntry): void {
    const update = this.#updates.get(entry.transaction);
    const hadContent = update?.open.get(entry);
    if (update === undefined || hadContent === undefined) return;
    const { kind } = entry.state;
    if (kind === 'applied') update.wasWritten = true;
    if (kind === 'gone' && update.dropped !== 'unfetched') update.dropped = hadContent ? 'fetched' : 'unfetched';
    if (kind === 'applied' || kind === 'gone') update.open.delete(entry);
    else update.open.set(entry, hasContent(entry));
    if (kind === 'blocked') {
      update.step.refused ??= this.#now();
      this.#tell(update.step);
    }
    this.#advance(entry.transaction);
  }

  #advance(transaction: string): void {
    const update = this.#updates.get(transaction);
    if (update === undefined || !update.isSealed) return;
    const { step, open, dropped, wasWritten } = update;
    if (step.fetched === undefined && dropped !== 'unfetched' && [...open.values()].every(Boolean)) {
      step.fetched = this.#now();
      this.#tell(step);
    }
    if (open.size > 0) return;
    if (dropped === 'none' || wasWritten) step.applied = this.#now();
    else step.replaced = this.#now();
    this.#tell(step);
    this.#updates.delete(transaction);
  }

  /** A commit is wanted anew: what became of it when it was wanted before says nothing of now. */
  #comes(commit: string): Step {
    const known = this.#commits.get(commit);
    if (known !== undefined && (known.applied !== undefined || known.refused !== undefined)) {
      this.#commits.delete(commit);
      this.#untold.delete(known);
    }
    return this.#commit(commit);
  }

  #commit(commit: string): Step {
    const known = this.#commits.get(commit) ?? { commit };
    this.#commits.set(commit, known);
    const [oldest] = this.#commits.keys();
    if (this.#commits.size > MAX_STEPS && oldest !== undefined) this.#commits.delete(oldest);
    return known;
  }

  #tell(step: Step): void {
    this.#untold.delete(step);
    this.#untold.add(step);
    const [oldest] = this.#untold;
    if (this.#untold.size > MAX_STEPS && oldest !== undefined) this.#untold.delete(oldest);
  }
}

function hasContent({ state: { kind } }: KnownEntry): boolean {
  return kind !== 'fetching';
}

function isSame(one: Step, other: Step): boolean {
  const times = ['fetched', 'applied', 'refused', 'replaced'] as const;
  return times.every((time) => one[time] === other[time]);
}
