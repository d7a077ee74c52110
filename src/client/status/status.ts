import type { FailureKind, PolicyState } from '../../wire/session.js';
import type { EntryState } from '../desired/entry-state.js';
import type { KnownEntry } from '../desired/entry-table.js';
import { type DataEvent, LOAD_ID } from './data-events.js';
import { DataReadiness } from './data-readiness.js';
import { type Failing, Failures } from './failures.js';
import { type PolicyProblem, PolicyTracker } from './policy-state.js';
import { RecentTransactions } from './recent-transactions.js';
import { type DataTransaction, type TransactionResult, Transactions } from './transactions.js';

/** Listed among the failing entries while the data configuration itself cannot be read. */
const CONFIG = 'data configuration';

/** The transactions of one kind so far. */
class History {
  last: TransactionResult | undefined;
  lastFailed: TransactionResult | undefined;
  /** How many ended well, and how many had a failed attempt; those may have ended well later. */
  readonly counts = { successful: 0, failed: 0 };

  record(result: TransactionResult): void {
    this.last = result;
    if (!result.success) this.lastFailed = result;
  }
}

/**
 * What the client knows of itself: its last transactions, failing entries, and whether the engine
 * answers. `ready` and `healthy` follow specification "Health states": a failure counts from the
 * first failed attempt until nothing fails (design D39).
 */
export class Status {
  /** The last transactions of both kinds, one by one. */
  readonly recent = new RecentTransactions();
  readonly #policyEnabled: boolean;
  readonly #dataEnabled: boolean;
  readonly #cutOffIsUnhealthy: boolean;
  readonly #transactions: Transactions;
  readonly #histories = { policy: new History(), data: new History() };
  readonly #failures = new Failures();
  readonly #policy = new PolicyTracker();
  readonly #watchers: (() => void)[] = [];
  readonly #data = new DataReadiness();
  #policyOnce = false;
  /** What was shown of {@link ready} and {@link healthy} last, and since when. */
  #shown = { ready: false, healthy: false, sinceMs: Date.now() };
  /** What reading the configuration recorded last. */
  #config: TransactionResult | undefined;
  #engine: { online: boolean; error: string | undefined; sinceMs: number } = {
    online: false,
    error: undefined,
    sinceMs: Date.now(),
  };
  #serverCutOffSinceMs: number | undefined;

  /**
   * `cutOffIsUnhealthy`: SYNC_SERVER_CUT_OFF_UNHEALTHY. `onFinished` is called at the end of each
   * data transaction; `onEnded` at that of one with nothing to report.
   */
  constructor(
    options: { policyEnabled: boolean; dataEnabled: boolean; cutOffIsUnhealthy?: boolean },
    onFinished: (result: TransactionResult, transaction: DataTransaction) => void,
    onEnded: typeof onFinished = () => undefined,
  ) {
    this.#policyEnabled = options.policyEnabled;
    this.#dataEnabled = options.dataEnabled;
    this.#cutOffIsUnhealthy = options.cutOffIsUnhealthy ?? false;
    const { data } = this.#histories;
    this.#transactions = new Transactions((effect, result, transaction) => {
      this.recent.onData(effect, result, transaction);
      if (effect === 'count_failure') data.counts.failed++;
      else if (effect === 'finish') {
        if (result.success && !transaction.update.isLoad) this.#data.succeeded(transaction.update);
        onFinished(result, transaction);
      } else if (effect === 'end') onEnded(result, transaction);
      else {
        data.record(result);
        if (result.success) data.counts.successful++;
      }
    });
  }

  /**
   * Policy was synced once, and data is ready, each only where it is enabled (specification "Health
   * states").
   */
  get ready(): boolean {
    return (!this.#policyEnabled || this.#policyOnce) && (!this.#dataEnabled || this.#data.isReady);
  }

  /**
   * All documents of the first load have arrived, or the client takes none; the engine may not have
   * them yet.
   */
  get documentsAreHere(): boolean {
    return !this.#dataEnabled || this.#data.isHere;
  }

  /** Documents of the first load that have not arrived, as far as it was read. */
  get missingDocuments(): readonly KnownEntry[] {
    return this.#data.missing;
  }

  /**
   * Ready, the latest policy and the last data update are in, no entry fails, and the engine
   * answers.
   */
  get healthy(): boolean {
    const { policy, data } = this.#histories;
    const isCurrent = policy.last?.success !== false && data.last?.success !== false;
    const isHeard = !this.#cutOffIsUnhealthy || this.#serverCutOffSinceMs === undefined;
    return this.ready && this.#engine.online && isCurrent && isHeard && this.failing.size === 0;
  }

  /**
   * Since when the server says that it is cut off from its backbone, in milliseconds since 1970 by
   * our clock; undefined: it does not.
   */
  get serverCutOffSinceMs(): number | undefined {
    return this.#serverCutOffSinceMs;
  }

  /** Since when {@link ready} and {@link healthy} are what they are (milliseconds since 1970). */
  get sinceMs(): number {
    return this.#shown.sinceMs;
  }

  get transactions(): { readonly policy: Readonly<History>; readonly data: Readonly<History> } {
    return this.#histories;
  }

  /** Each entry that fails or is withheld, and why, by its id; the oldest first. */
  get failing(): ReadonlyMap<string, Failing> {
    return this.#failures.all;
  }

  /** The oldest of {@link failing}, as many as a report or an answer lists. */
  get failures(): Failing[] {
    return this.#failures.listed;
  }

  /** The commit that is wanted, the one that the engine holds, and why they differ. */
  get policy(): PolicyState {
    return this.#policy.state;
  }

  /**
   * Whether the engine answers and holds our state, why not, and since when (milliseconds since
   * 1970).
   */
  get engine(): { readonly online: boolean; readonly error: string | undefined; readonly sinceMs: number } {
    return this.#engine;
  }

  /** Calls `onChange` after everything that may change the status. It must return at once. */
  watch(onChange: () => void): void {
    this.#watchers.push(onChange);
  }

  /** The server says that it is cut off from its backbone since then; undefined: that it is not. */
  serverCutOff(sinceMs: number | undefined): void {
    this.#serverCutOffSinceMs = sinceMs;
    this.#changed();
  }

  /** The server says which commit is its newest. */
  policyWanted(commit: string): void {
    if (this.#policy.wants(commit)) this.#changed();
  }

  /**
   * The commit that is held lacks these subscribed directories. Returns whether they are others
   * than before.
   */
  policyLacks(directories: readonly string[]): boolean {
    const isNew = this.#policy.lacks(directories);
    if (isNew) this.#changed();
    return isNew;
  }

  /** The engine holds a commit that did not come from the server; undefined: an unknown one. */
  policyHeld(commit: string | undefined): void {
    this.#policy.holds(commit);
    this.#changed();
  }

  engineSeen(online: boolean, error?: string): void {
    const sinceMs = online === this.#engine.online ? this.#engine.sinceMs : Date.now();
    this.#engine = { online, error: online ? undefined : error, sinceMs };
    this.#changed();
  }

  /**
   * The engine was filled from a backup, which only a client that is ready makes; its client may
   * have had no policy.
   */
  restored(backup: { hasPolicy: boolean }): void {
    if (backup.hasPolicy) this.#policyOnce = true;
    this.#data.restored();
    this.#changed();
  }

  /**
   * The outcome of applying a commit; `error` is empty for a success, `place` is what caused a
   * failure. The same outcome again counts once.
   */
  policyResult(id: string, error: string, place: PolicyProblem = {}): void {
    const { policy } = this.#histories;
    const success = error === '';
    const isNew = policy.last?.id !== id || policy.last.success !== success;
    if (isNew) policy.counts[success ? 'successful' : 'failed']++;
    policy.record({ id, success, error, actions: ['set_policies'], atMs: Date.now() });
    if (success) {
      this.#policyOnce = true;
      this.#policy.holds(id);
      this.#policy.wants(id);
    } else this.#policy.failed(id, error, place);
    this.#changed();
  }

  /** Subscriber of {@link DataEvents}. */
  readonly onData = (event: DataEvent): void => {
    if (event.kind === 'settled') this.#entrySettled(event.entry);
    else if (event.kind === 'forgotten') this.#failures.recovered(event.entry.id);
    else if (event.kind === 'config_read') this.#configRead();
    this.#data.onData(event);
    this.#transactions.onData(event);
    if (CHANGES.has(event.kind)) this.#changed();
  };

  /**
   * The data configuration could not be read: what it lists may be missing here, until it is read.
   */
  configFailed(error: string): void {
    if (!this.failing.has(CONFIG)) this.#histories.data.counts.failed++;
    this.#failures.failed(CONFIG, CONFIG, error, 'config');
    this.#recordConfig(`${CONFIG}: ${error}`);
    this.#changed();
  }

  #entrySettled({ id, path, state }: KnownEntry): void {
    // Content that arrives after a failure is not in the engine yet: the entry fails until it is.
    if (state.kind === 'applied') this.#failures.recovered(id);
    else if (state.error !== undefined)
      this.#failures.failed(id, `/${path.join('/')}`, state.error, kindOf(state.kind));
  }

  #configRead(): void {
    this.#failures.recovered(CONFIG);
    const { last } = this.#histories.data;
    // With nothing to load, the read itself is the success that ends a failure to read the
    // configuration.
    if (!this.#transactions.isLoading && last === this.#config) this.#recordConfig('');
  }

  #recordConfig(error: string): void {
    this.#config = { id: LOAD_ID, success: error === '', error, actions: [], atMs: Date.now() };
    this.#histories.data.record(this.#config);
  }

  #changed(): void {
    const { ready, healthy } = this;
    if (ready !== this.#shown.ready || healthy !== this.#shown.healthy) {
      this.#shown = { ready, healthy, sinceMs: Date.now() };
    }
    for (const onChange of this.#watchers) onChange();
  }
}

/** Events that may change the status. */
const CHANGES: ReadonlySet<DataEvent['kind']> = new Set(['settled', 'forgotten', 'sealed', 'config_read']);

/** The kind of failure of an entry, by its state. */
function kindOf(state: EntryState['kind']): FailureKind {
  if (state === 'blocked') return 'refused';
  return state === 'ready' ? 'engine' : 'source';
}
