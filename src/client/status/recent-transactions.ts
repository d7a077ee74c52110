import type { ClientTransaction } from '../../wire/client-details.js';
import type { BegunUpdate } from './data-events.js';
import { cut } from './failures.js';
import { type DataTransaction, successOf, type TransactionEffect, type TransactionResult } from './transactions.js';

/** Most transactions of each kind in memory. */
const KEPT = 20;
/** Paths that one names. */
const NAMED = 5;

/** What became of a policy commit at the engine. */
export interface PolicyOutcome {
  readonly id: string;
  readonly outcome: 'applied' | 'unchanged' | 'refused' | 'failing';
  readonly startedMs: number;
  /** Files that it changed. */
  readonly wrote?: readonly string[];
  readonly error?: string;
}

/** One transaction; it changes as long as it is under way. */
interface Noted {
  readonly kind: ClientTransaction['kind'];
  /** What it is the transaction of. */
  readonly of: BegunUpdate | string;
  told: ClientTransaction;
}

/**
 * The last transactions of policy and data, with how they went, for people who ask. The memory is
 * bounded.
 */
export class RecentTransactions {
  /** The oldest first. */
  #noted: readonly Noted[] = [];

  /** The last ones, the newest first. */
  list(): ClientTransaction[] {
    return this.#noted
      .map(({ told }) => told)
      .sort((one, other) => other.at - one.at)
      .slice(0, KEPT);
  }

  /** Takes what happens to a transaction of data. */
  readonly onData = (effect: TransactionEffect, result: TransactionResult, transaction: DataTransaction): void => {
    const outcome = dataOutcome(effect, result, transaction);
    const { update, startedMs, paths, joined } = transaction;
    this.#note('data', update, {
      kind: 'data',
      id: cut(update.id),
      seq: update.seq ?? null,
      outcome,
      at: result.atMs,
      took_ms: Math.max(0, result.atMs - startedMs),
      wrote: [...paths].slice(0, NAMED).map(cut),
      wrote_total: joined,
      error: result.success ? null : cut(result.error),
    });
  };

  /** Notes what became of a commit; one that is tried again is one transaction. */
  policy({ id, outcome, startedMs, wrote = [], error }: PolicyOutcome): void {
    const last = this.#noted.findLast(({ kind }) => kind === 'policy');
    const isRepeated = last?.told.id === id && (last.told.outcome === 'failing' || last.told.outcome === outcome);
    this.#note('policy', isRepeated ? last.of : `${id} ${Date.now()}`, {
      kind: 'policy',
      id,
      seq: null,
      outcome,
      at: Date.now(),
      took_ms: Math.max(0, Date.now() - startedMs),
      wrote: wrote.slice(0, NAMED).map(cut),
      wrote_total: wrote.length,
      error: error === undefined ? null : cut(error),
    });
  }

  #note(kind: Noted['kind'], of: Noted['of'], told: ClientTransaction): void {
    const known = this.#noted.find((one) => one.of === of) ?? this.#repeatedLoad(of, told);
    if (known !== undefined) {
      known.told = told;
      return;
    }
    const others = this.#noted.filter((one) => one.kind !== kind);
    const same = this.#noted.filter((one) => one.kind === kind).slice(1 - KEPT);
    this.#noted = [...others, ...same, { kind, of, told }];
  }

  /** Loads that find nothing new come with each connection: the last one is enough. */
  #repeatedLoad(of: Noted['of'], { outcome }: ClientTransaction): Noted | undefined {
    const last = this.#noted.findLast(({ kind }) => kind === 'data');
    const isQuiet = typeof of !== 'string' && of.isLoad && outcome === 'unchanged';
    return isQuiet && last?.told.outcome === 'unchanged' && last.told.id === of.id ? last : undefined;
  }
}

function dataOutcome(effect: TransactionEffect, { success }: TransactionResult, transaction: DataTransaction): string {
  if (success) return successOf(transaction);
  return effect === 'count_failure' || effect === 'record' ? 'failing' : 'refused';
}
