import { errorText, failureFields, SyncError } from '../../../lib/errors.js';
import type { Logger } from '../../../lib/observe/log.js';
import { type BackoffOptions, backoffMs, firstOf, sleep } from '../../../lib/run/async.js';
import { MeasuredClock } from '../../../lib/run/measured-clock.js';
import type { Durability, StoreStatus } from '../log-store.js';
import { presenceUnavailable, replaced, unavailable } from './backbone-errors.js';

/** Timeouts and intervals, in milliseconds. */
export interface BackboneTimes {
  /** Timeout of one attempt to connect. */
  readonly connectMs: number;
  /** Timeout of one call; {@link Sent} extends it. */
  readonly callMs: number;
  /**
   * Interval of {@link Session.look}: the heartbeat, and how rows are found whose wake-up was lost.
   */
  readonly lookMs: number;
  /** How long a start waits for a backbone that may be starting, too. */
  readonly openMs: number;
  /** Delays between attempts to connect, and after sessions that ended at once. */
  readonly backoff: BackoffOptions;
}

export const BACKBONE_TIMES: BackboneTimes = {
  ...{ connectMs: 5000, callMs: 5000, lookMs: 5000, openMs: 30_000 },
  backoff: { minMs: 100, maxMs: 5000 },
};

/** The current state of the log. */
export interface BackboneState {
  /** Undefined if there is no log. */
  readonly epoch: string | undefined;
  readonly head: number;
  /** Time of the requested row; undefined if it does not exist (any more). */
  readonly rowMs: number | undefined;
  /**
   * The time by the clock of the backbone, which the times of rows are by. Undefined: it does not
   * say.
   */
  readonly nowMs?: number | undefined;
}

/** Events of a session. */
export interface SessionHooks {
  /** There may be new rows; up to `head`, if that is known. */
  hint(head?: number): void;
  /** A text of {@link Session.mail} of any instance. */
  mail(text: string): void;
  /** The connection has failed. */
  lost(error: unknown): void;
}

/**
 * The connections to a backbone, from their opening to their first failure. A method that rejects
 * with a `SyncError` got a response; any other error means that the connection is lost.
 */
export interface Session {
  /** Reads epoch and head, and the time of row `seq` (0: of none). */
  look(seq: number): Promise<BackboneState>;
  /** Gives the log a new epoch, if `old` is still its epoch. */
  renewEpoch(old: string): Promise<void>;
  /** Creates the log if there is none, and returns its epoch. */
  prepare(): Promise<string>;
  /**
   * Verifies the durability of the log (design D26). Called once, after {@link Session.prepare}.
   */
  durability(): Promise<Durability>;
  /**
   * Makes again what {@link Session.prepare} made beside the rows of the log and that is gone, and
   * what listens for rows and mail. Called after each check, and beside it. Rejects with
   * `backbone_replaced` if it finds that the log itself is gone.
   */
  mend(): Promise<void>;
  /** Sends a text to all sessions of this log that are up. */
  mail(text: string): Promise<void>;
  /** Closes the connections without waiting for the backbone. Never throws. */
  end(): void;
}

export interface KeeperDeps<S extends Session> {
  /** The backbone without its secrets, for messages: `Postgres at db:5432`. */
  readonly what: string;
  readonly times: BackboneTimes;
  readonly log: Logger;
  /** Aborts a start. */
  readonly signal?: AbortSignal | undefined;
  /** Connects. The keeper bounds the time, and ends a session that comes too late. */
  connect(hooks: SessionHooks): Promise<S>;
}

/** What a call sends, which takes its time at a backbone that is well. */
interface Sent {
  readonly bytes: number;
  /** Messages that the backbone flushes to its disk one after the other. */
  readonly flushes?: number;
}

/** Interval of warnings while the backbone is unavailable. */
const REMIND_MS = 60_000;
const NOTHING: Sent = { bytes: 0 };
const PER_BYTE_MS = 1000 / (1024 * 1024);
/** Two turns of a slow disk. */
const PER_FLUSH_MS = 20;

interface Held<S> {
  readonly session: S;
  /**
   * Rejects when the session is lost. Has a handler already. Lives as long as the session: race
   * with it by {@link firstOf} only.
   */
  readonly lost: Promise<never>;
  lose(error: unknown): void;
}

/**
 * Keeps a session to a backbone: one loop connects, checks the log at intervals, and reconnects
 * with backoff after a failure. Without a session calls fail immediately, and every call has a
 * timeout. A session must lead to the log that was read before: if that was emptied, replaced or
 * restored from a backup, the keeper fails permanently with `backbone_replaced`.
 */
export class SessionKeeper<S extends Session> {
  readonly epoch: string;
  readonly durability: Durability;
  readonly failed: Promise<never>;
  readonly #deps: KeeperDeps<S>;
  readonly #stop = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #mailListeners = new Set<(text: string) => void>();
  readonly #hooks = { hint: (head?: number) => this.hint(head), mail: (text: string) => this.delivered(text) };
  readonly #running: Promise<void>;
  #held: Held<S> | undefined;
  #status: StoreStatus = { up: true };
  /** A {@link Session.mend} under way. Never rejects. */
  #mending: Promise<void> | undefined;
  #mendFails = false;
  #fail: (error: SyncError) => void = () => undefined;
  /** The newest row that was read. */
  #seen = { seq: 0, timeMs: 0 };
  /** Of the last checks, the newest last. */
  #roundTrips: readonly number[] = [];
  readonly #clock = new MeasuredClock();
  #head = 0;

  private constructor(deps: KeeperDeps<S>, first: Held<S>, log: { epoch: string; durability: Durability }) {
    this.#deps = deps;
    this.epoch = log.epoch;
    this.durability = log.durability;
    this.failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    this.failed.catch(() => undefined); // only those who use it handle it
    this.#held = first;
    this.#running = this.#run(first);
  }

  /**
   * Connects, and creates the log if there is none. Rejects with `backbone_unavailable` after
   * {@link BackboneTimes.openMs}, immediately with `config_invalid` or `log_damaged`, and with the
   * signal's reason if that aborts.
   */
  static async open<S extends Session>(deps: KeeperDeps<S>): Promise<SessionKeeper<S>> {
    const { what, times, log, signal = new AbortController().signal } = deps;
    const deadline = performance.now() + times.openMs;
    let keeper: SessionKeeper<S> | undefined;
    for (let attempt = 1; ; attempt++) {
      let held: Held<S> | undefined;
      try {
        held = await connectHeld(
          deps,
          { hint: (head) => keeper?.hint(head), mail: (text) => keeper?.delivered(text) },
          signal,
        );
        const opened = await within(times.callMs, [prepared(held.session), held.lost], signal);
        keeper = new SessionKeeper(deps, held, opened);
        return keeper;
      } catch (error) {
        held?.session.end();
        signal.throwIfAborted();
        if (error instanceof SyncError && error.code !== 'backbone_unavailable') throw error;
        const delayMs = backoffMs(attempt, times.backoff);
        if (performance.now() + delayMs > deadline) {
          const reason = `no start within ${times.openMs / 1000} s: ${errorText(error)}; start it, or correct SYNC_BROADCAST_URI`;
          throw unavailable(what, reason, error);
        }
        log.warn(
          { ...failureFields(asUnavailable(what, error)), delay_ms: Math.round(delayMs) },
          'the backbone does not respond yet',
        );
        await sleep(delayMs, signal);
      }
    }
  }

  get status(): StoreStatus {
    return this.#status;
  }

  /**
   * Duration of a check, in milliseconds: the shortest of the last three, since a busy process
   * measures itself too. Undefined before the first, and without a session.
   */
  get roundTripMs(): number | undefined {
    if (!this.#status.up) return undefined;
    return this.#roundTrips.length === 0 ? undefined : Math.min(...this.#roundTrips);
  }

  /** How far the clock of the backbone is ahead of ours; undefined: not known yet. */
  get clockAheadMs(): number | undefined {
    return this.#clock.aheadMs;
  }

  /** {@link Session.look}, which tells the clock of the backbone, too. */
  async look(session: S, seq: number): Promise<{ readonly state: BackboneState; readonly tookMs: number }> {
    const [startedMs, sentMs] = [performance.now(), Date.now()];
    const state = await session.look(seq);
    const tookMs = performance.now() - startedMs;
    if (state.nowMs !== undefined) this.#clock.answered(state.nowMs, { sentMs, tookMs });
    return { state, tookMs };
  }

  watch(listener: () => void): () => void {
    const own = (): void => listener(); // the same listener may watch twice
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** Sends a text to all instances. Rejects as {@link SessionKeeper.callAside} does. */
  async send(text: string): Promise<void> {
    await this.callAside((session) => session.mail(text), { bytes: text.length });
  }

  watchMail(listener: (text: string) => void): () => void {
    const own = (text: string): void => listener(text); // the same listener may watch twice
    this.#mailListeners.add(own);
    return () => void this.#mailListeners.delete(own);
  }

  /** {@link SessionHooks.mail}. */
  delivered(text: string): void {
    for (const listener of [...this.#mailListeners]) listener(text);
  }

  /** {@link SessionHooks.hint}. */
  hint(head = 0): void {
    this.sawHead(head);
    for (const listener of [...this.#listeners]) listener();
  }

  /**
   * Remembers a row that was read: a log that does not have it was replaced. One whose time is none
   * is damaged, which whoever applies it says.
   */
  saw(row: { readonly seq: number; readonly timeMs: number } | undefined): void {
    if (row === undefined || Number.isNaN(row.timeMs)) return;
    if (row.seq > this.#seen.seq) this.#seen = { seq: row.seq, timeMs: row.timeMs };
    this.sawHead(row.seq);
  }

  /** Remembers a seq that was assigned: a log with a lower head was replaced. */
  sawHead(seq: number): void {
    if (seq > this.#head) this.#head = seq;
  }

  /** Highest seq that is known to be assigned. */
  get head(): number {
    return this.#head;
  }

  /**
   * Calls the backbone. Rejects with the error of its response, or with `backbone_unavailable` if
   * there is none: then the call may have taken effect. `work` is told how long it may take: longer
   * the more is `sent`. A backbone that is away is noticed earlier, by a check.
   */
  async call<T>(work: (session: S, limitMs: number) => Promise<T>, sent = NOTHING): Promise<T> {
    const { what } = this.#deps;
    const held = this.#connected();
    try {
      return await this.#inTime(held, work, sent);
    } catch (error) {
      if (error instanceof SyncError) {
        if (error.code === 'backbone_replaced') held.lose(error);
        throw error.code === 'backbone_replaced' ? unavailable(what, error.message, error) : error;
      }
      held.lose(error);
      throw unavailable(what, errorText(error), error);
    }
  }

  /**
   * As {@link call}, for what the log does not depend on: a failure of it alone costs the log
   * nothing. Rejects with `presence_unavailable`, with `backbone_unavailable` if the backbone
   * itself is away, and with `inline_data_too_large`.
   */
  async callAside<T>(work: (session: S) => Promise<T>, sent = NOTHING): Promise<T> {
    const { what } = this.#deps;
    const held = this.#connected();
    try {
      return await this.#inTime(held, work, sent);
    } catch (cause) {
      if (cause instanceof SyncError && cause.code === 'inline_data_too_large') throw cause;
      // Whether it is the backbone that is away, the log tells.
      if (this.#held === held) await this.call((session) => session.look(0));
      throw (this.#held === held ? presenceUnavailable : unavailable)(what, errorText(cause), cause);
    }
  }

  /** Ends the session; later calls reject. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#held?.lose(new Error('the log is closed'));
    await this.#running;
  }

  #connected(): Held<S> {
    if (this.#held !== undefined) return this.#held;
    throw unavailable(this.#deps.what, this.#stop.signal.aborted ? 'the log is closed' : this.#reason());
  }

  #inTime<T>(
    { session, lost }: Held<S>,
    work: (session: S, limitMs: number) => Promise<T>,
    { bytes, flushes = 0 }: Sent,
  ): Promise<T> {
    const limitMs = this.#deps.times.callMs + bytes * PER_BYTE_MS + flushes * PER_FLUSH_MS;
    return within(limitMs, [work(session, limitMs), lost]);
  }

  #reason(): string {
    return this.#status.up ? 'not connected' : this.#status.reason;
  }

  /** Never rejects. */
  async #run(first: Held<S>): Promise<void> {
    const { signal } = this.#stop;
    let held: Held<S> | undefined = first;
    let short = 0;
    while (held !== undefined && !signal.aborted) {
      const startedMs = performance.now();
      this.#setUp(held);
      const error = await this.#lookAfter(held);
      held.session.end();
      this.#setDown(error);
      if (error instanceof SyncError && error.code === 'backbone_replaced') return this.#fail(error);
      // A backbone that takes connections and fails each first call must not be connected in a
      // circle.
      short = performance.now() - startedMs < this.#deps.times.lookMs ? short + 1 : 0;
      if (short > 1) await sleep(backoffMs(short - 1, this.#deps.times.backoff), signal).catch(() => undefined); // the loop checks the signal
      held = await this.#connectAgain();
    }
    held?.session.end();
    this.#held = undefined;
    await this.#mending;
  }

  /**
   * Checks the log at intervals, and has what is missing made again. Returns the error that ends
   * the session.
   */
  async #lookAfter(held: Held<S>): Promise<unknown> {
    const { lookMs, callMs } = this.#deps.times;
    const pause = new AbortController();
    try {
      for (;;) {
        this.#mend(held);
        await firstOf([sleep(lookMs, pause.signal), held.lost]);
        const before = this.#head;
        await within(callMs, [this.#check(held.session), held.lost]);
        if (this.#head > before) this.hint();
      }
    } catch (error) {
      return error;
    } finally {
      pause.abort();
    }
  }

  /** Begins a {@link Session.mend}, unless one is under way: a check does not wait for it. */
  #mend(held: Held<S>): void {
    this.#mending ??= this.#mended(held).finally(() => {
      this.#mending = undefined;
    });
  }

  /** Never rejects. */
  async #mended(held: Held<S>): Promise<void> {
    const { log, what, times } = this.#deps;
    try {
      await within(times.callMs, [held.session.mend(), held.lost]);
      this.#mendFails = false;
    } catch (error) {
      if (error instanceof SyncError && error.code === 'backbone_replaced') held.lose(error);
      else if (this.#held === held) {
        const failure = error instanceof SyncError ? error : presenceUnavailable(what, errorText(error), error);
        const level = this.#mendFails ? 'debug' : 'warn';
        log[level](
          { backbone: what, ...failureFields(failure) },
          'what is missing in the backbone cannot be made again yet',
        );
        this.#mendFails = true;
      }
    }
  }

  /** Rejects with `backbone_replaced` if this is not the log that was read. */
  async #check(session: S): Promise<void> {
    const { what } = this.#deps;
    const { seq, timeMs } = this.#seen;
    const head = this.#head;
    const { state, tookMs } = await this.look(session, seq);
    this.#roundTrips = [...this.#roundTrips.slice(-2), tookMs];
    if (state.epoch !== this.epoch)
      throw replaced(what, 'the update log was emptied or replaced: it has another epoch');
    const isOther = state.rowMs === undefined ? seq === state.head : state.rowMs !== timeMs; // the last row is never dropped
    if (state.head < head || (seq > 0 && isOther)) {
      // With the old epoch, readers would take its new rows for those that had the same seqs
      // before.
      await session.renewEpoch(this.epoch);
      throw replaced(what, `the update log has gone back: it had rows up to ${head}, and some of them are missing`);
    }
    this.sawHead(state.head);
  }

  /**
   * Returns a checked session; undefined if the keeper was closed or has failed permanently. Never
   * rejects.
   */
  async #connectAgain(): Promise<Held<S> | undefined> {
    const { signal } = this.#stop;
    const { log, what, times } = this.#deps;
    let warnedMs = performance.now(); // of the loss
    for (let attempt = 1; !signal.aborted; attempt++) {
      let held: Held<S> | undefined;
      try {
        held = await connectHeld(this.#deps, this.#hooks);
        await within(times.callMs, [this.#check(held.session), held.lost]);
        return held;
      } catch (error) {
        held?.session.end();
        this.#setDown(error);
        if (error instanceof SyncError && error.code === 'backbone_replaced') {
          this.#fail(error);
          return undefined;
        }
        const delayMs = backoffMs(attempt, times.backoff);
        const isDue = performance.now() - warnedMs >= REMIND_MS;
        if (isDue) warnedMs = performance.now();
        log[isDue ? 'warn' : 'debug'](
          { backbone: what, ...failureFields(asUnavailable(what, error)), attempt, delay_ms: Math.round(delayMs) },
          'the backbone is still unavailable',
        );
        await sleep(delayMs, signal).catch(() => undefined); // the loop checks the signal
      }
    }
    return undefined;
  }

  #setUp(held: Held<S>): void {
    this.#held = held;
    if (!this.#status.up) {
      const { sinceMs } = this.#status;
      this.#deps.log.info({ backbone: this.#deps.what, down_ms: Date.now() - sinceMs }, 'the backbone is back');
    }
    this.#status = { up: true };
    this.hint(); // the status has changed, and rows may have been appended meanwhile
  }

  #setDown(error: unknown): void {
    const reason = errorText(error);
    const wasUp = this.#status.up;
    this.#held = undefined;
    this.#status = { up: false, reason, sinceMs: this.#status.up ? Date.now() : this.#status.sinceMs };
    if (this.#stop.signal.aborted || !wasUp) return;
    this.#deps.log.error(
      { backbone: this.#deps.what, ...failureFields(asUnavailable(this.#deps.what, error)) },
      'the backbone is lost',
    );
    this.hint();
  }
}

/** Any error but a `SyncError` comes from a driver and means that the backbone is unavailable. */
function asUnavailable(what: string, error: unknown): SyncError {
  return error instanceof SyncError ? error : unavailable(what, errorText(error), error);
}

async function connectHeld<S extends Session>(
  deps: KeeperDeps<S>,
  hooks: Pick<SessionHooks, 'hint' | 'mail'>,
  signal?: AbortSignal,
): Promise<Held<S>> {
  let lose: (error: unknown) => void = () => undefined;
  const lost = new Promise<never>((_resolve, reject) => {
    lose = reject;
  });
  lost.catch(() => undefined); // calls race with it, and reject
  const connecting = deps.connect({ ...hooks, lost: (error) => lose(error) });
  try {
    return { session: await within(deps.times.connectMs, [connecting], signal), lost, lose };
  } catch (error) {
    // The session may still arrive: end it then.
    connecting.then(
      (session) => session.end(),
      () => undefined,
    );
    throw error;
  }
}

/**
 * Settles as the first of `works` does. Rejects if that takes longer than `ms`, or when the signal
 * aborts.
 */
async function within<T>(ms: number, works: readonly Promise<T>[], signal?: AbortSignal): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = (): void => undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${Math.round(ms)} ms`)), ms);
    onAbort = () => reject(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
  });
  try {
    return await firstOf([...works, late]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

async function prepared(session: Session): Promise<{ epoch: string; durability: Durability }> {
  const epoch = await session.prepare();
  return { epoch, durability: await session.durability() };
}
