import { backoffMs, sleep } from '../../lib/async.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { Durability, StoreStatus } from '../log/log-store.js';
import { replaced, unavailable } from './backbone-errors.js';

/** Times that bound whatever waits for a backbone, in milliseconds. */
export interface BackboneTimes {
  /** One attempt to connect. */
  readonly connectMs: number;
  /** One call; an append of large rows has a second more for each MiB. */
  readonly callMs: number;
  /** Between two looks at the log: the heartbeat, and what finds rows whose wake-up was lost. */
  readonly lookMs: number;
  /** How long a start waits for a backbone that is being started too. */
  readonly openMs: number;
}

export const BACKBONE_TIMES: BackboneTimes = { connectMs: 5000, callMs: 5000, lookMs: 5000, openMs: 30_000 };

/** The log as it is now. */
export interface BackboneState {
  /** Undefined: there is none. */
  readonly epoch: string | undefined;
  readonly head: number;
  /** Time of the row that was asked for; undefined where it is not there (any more). */
  readonly rowMs: number | undefined;
}

/** What a session tells. */
export interface SessionHooks {
  /** There may be new rows, up to this place where it is known. */
  hint(head?: number): void;
  /** The connection is of no use any more. */
  lost(error: unknown): void;
}

/**
 * Connections to a backbone, from their opening to their first failure. In its methods a `SyncError` says that the backbone has answered;
 * any other error that the connection is lost.
 */
export interface Session {
  /** Head and epoch, and the time of one row (0: none). */
  look(seq: number): Promise<BackboneState>;
  /** Gives the log a new epoch, if it still has this one. */
  renewEpoch(old: string): Promise<void>;
  /** Makes the log where there is none, and returns its epoch. */
  prepare(): Promise<string>;
  /** How durable the log is. Called once, after {@link Session.prepare} (design D26). */
  durability(): Promise<Durability>;
  /** Cuts the connections; never waits for an answer, never rejects. */
  end(): void;
}

/** What a {@link SessionKeeper} is made with. */
export interface KeeperDeps<S extends Session> {
  /** The backbone without its secrets, for messages: `Postgres at db:5432`. */
  readonly what: string;
  readonly times: BackboneTimes;
  readonly log: Logger;
  /** Gives up a start. */
  readonly signal?: AbortSignal | undefined;
  /** Connects; the keeper bounds the time and ends what comes too late. */
  connect(hooks: SessionHooks): Promise<S>;
}

const BACKOFF = { minMs: 100, maxMs: 5000 };
/** Between two warnings that it is still away. */
const REMIND_MS = 60_000;
const PER_BYTE_MS = 1000 / (1024 * 1024);

interface Held<S> {
  readonly session: S;
  /** Rejects when the session is lost; handled. */
  readonly lost: Promise<never>;
  lose(error: unknown): void;
}

/**
 * Keeps a session to a backbone: one loop that connects, looks at the log at intervals, and connects anew with a growing delay after
 * a failure. While there is none, calls fail at once; no call waits longer than its time. Each new session is checked to lead to
 * the log that was read before: one that was emptied, restored or has gone back ends the keeper for good (`backbone_replaced`).
 */
export class SessionKeeper<S extends Session> {
  readonly epoch: string;
  readonly durability: Durability;
  readonly failed: Promise<never>;
  readonly #deps: KeeperDeps<S>;
  readonly #stop = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #running: Promise<void>;
  #held: Held<S> | undefined;
  #status: StoreStatus = { up: true };
  #fail: (error: SyncError) => void = () => undefined;
  /** The newest row that was read, and the highest place known. */
  #seen = { seq: 0, timeMs: 0 };
  #head = 0;

  private constructor(deps: KeeperDeps<S>, first: Held<S>, log: { epoch: string; durability: Durability }) {
    this.#deps = deps;
    this.epoch = log.epoch;
    this.durability = log.durability;
    this.failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    this.failed.catch(() => undefined); // whoever wants to know asks
    this.#held = first;
    this.#running = this.#run(first);
  }

  /**
   * Connects, and makes the log where there is none. Rejects with `backbone_unavailable` when nothing answers for the time of a
   * start, with `config_invalid` or `log_damaged` at once, with the signal's reason when that aborts.
   */
  static async open<S extends Session>(deps: KeeperDeps<S>): Promise<SessionKeeper<S>> {
    const { what, times, log, signal = new AbortController().signal } = deps;
    const deadline = performance.now() + times.openMs;
    let keeper: SessionKeeper<S> | undefined;
    for (let attempt = 1; ; attempt++) {
      let held: Held<S> | undefined;
      try {
        held = await connectHeld(deps, (head) => keeper?.hint(head), signal);
        const opened = await within(times.callMs, Promise.race([prepared(held.session), held.lost]), signal);
        keeper = new SessionKeeper(deps, held, opened);
        return keeper;
      } catch (error) {
        held?.session.end();
        signal.throwIfAborted();
        if (error instanceof SyncError && error.code !== 'backbone_unavailable') throw error;
        const delayMs = backoffMs(attempt, BACKOFF);
        if (performance.now() + delayMs > deadline) {
          const reason = `no start within ${times.openMs / 1000} s: ${errorText(error)}; start it, or correct SYNC_BROADCAST_URI`;
          throw unavailable(what, reason, error);
        }
        log.warn(
          { ...failureFields(asUnavailable(what, error)), delay_ms: Math.round(delayMs) },
          'the backbone does not answer yet',
        );
        await sleep(delayMs, signal);
      }
    }
  }

  get status(): StoreStatus {
    return this.#status;
  }

  watch(listener: () => void): () => void {
    const own = (): void => listener(); // one listener may watch twice
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }

  /** There may be new rows, up to this place where it is known. */
  hint(head = 0): void {
    this.sawHead(head);
    for (const listener of [...this.#listeners]) listener();
  }

  /** Remembers a row that was read: a log without it is another one. */
  saw(row: { readonly seq: number; readonly timeMs: number } | undefined): void {
    if (row === undefined) return;
    if (row.seq > this.#seen.seq) this.#seen = { seq: row.seq, timeMs: row.timeMs };
    this.sawHead(row.seq);
  }

  /** Remembers a place that was given: a log whose head is lower is another one. */
  sawHead(seq: number): void {
    if (seq > this.#head) this.#head = seq;
  }

  /** Highest place that is known to be given. */
  get head(): number {
    return this.#head;
  }

  /**
   * Does something with the session. Rejects with what the backbone answered, or with `backbone_unavailable` where there is no answer;
   * then it is not known whether it was done. `bytes` that are sent make its time longer.
   */
  async call<T>(work: (session: S) => Promise<T>, bytes = 0): Promise<T> {
    const { what, times } = this.#deps;
    const held = this.#held;
    if (held === undefined) {
      throw unavailable(what, this.#stop.signal.aborted ? 'the log is closed' : this.#reason());
    }
    try {
      return await within(times.callMs + bytes * PER_BYTE_MS, Promise.race([work(held.session), held.lost]));
    } catch (error) {
      if (error instanceof SyncError) {
        if (error.code === 'backbone_replaced') held.lose(error);
        throw error.code === 'backbone_replaced' ? unavailable(what, error.message, error) : error;
      }
      held.lose(error);
      throw unavailable(what, errorText(error), error);
    }
  }

  /** Ends the session; later calls reject. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#held?.lose(new Error('the log is closed'));
    await this.#running;
  }

  #reason(): string {
    return this.#status.up ? 'not connected' : this.#status.reason;
  }

  /** Never rejects. */
  async #run(first: Held<S>): Promise<void> {
    const { signal } = this.#stop;
    let held: Held<S> | undefined = first;
    while (held !== undefined && !signal.aborted) {
      this.#setUp(held);
      const error = await this.#lookAfter(held);
      held.session.end();
      this.#setDown(error);
      if (error instanceof SyncError && error.code === 'backbone_replaced') return this.#fail(error);
      held = await this.#connectAgain();
    }
    held?.session.end();
    this.#held = undefined;
  }

  /** Looks at the log at intervals; answers why that ended. */
  async #lookAfter(held: Held<S>): Promise<unknown> {
    const { lookMs, callMs } = this.#deps.times;
    const pause = new AbortController();
    try {
      for (;;) {
        await Promise.race([sleep(lookMs, pause.signal), held.lost]);
        const before = this.#head;
        await within(callMs, Promise.race([this.#check(held.session), held.lost]));
        if (this.#head > before) this.hint();
      }
    } catch (error) {
      return error;
    } finally {
      pause.abort();
    }
  }

  /** Rejects with `backbone_replaced` when this is not the log that was read. */
  async #check(session: S): Promise<void> {
    const { what } = this.#deps;
    const { seq, timeMs } = this.#seen;
    const head = this.#head;
    const state = await session.look(seq);
    if (state.epoch !== this.epoch)
      throw replaced(what, 'the update log was emptied or replaced: it has another epoch');
    if (state.head < head || (state.rowMs !== undefined && seq > 0 && state.rowMs !== timeMs)) {
      // Whoever reads it from now on must not take its places for the ones that were given before.
      await session.renewEpoch(this.epoch);
      throw replaced(what, `the update log has gone back: rows up to ${head} were there, not all of them are`);
    }
    this.sawHead(state.head);
  }

  /** A checked session; undefined when the keeper was stopped or has failed for good. Never rejects. */
  async #connectAgain(): Promise<Held<S> | undefined> {
    const { signal } = this.#stop;
    const { log, what, times } = this.#deps;
    let toldMs = performance.now(); // of the loss
    for (let attempt = 1; !signal.aborted; attempt++) {
      let held: Held<S> | undefined;
      try {
        held = await connectHeld(this.#deps, (head) => this.hint(head));
        await within(times.callMs, Promise.race([this.#check(held.session), held.lost]));
        return held;
      } catch (error) {
        held?.session.end();
        this.#setDown(error);
        if (error instanceof SyncError && error.code === 'backbone_replaced') {
          this.#fail(error);
          return undefined;
        }
        const delayMs = backoffMs(attempt, BACKOFF);
        const isDue = performance.now() - toldMs >= REMIND_MS;
        if (isDue) toldMs = performance.now();
        log[isDue ? 'warn' : 'debug'](
          { backbone: what, ...failureFields(asUnavailable(what, error)), attempt, delay_ms: Math.round(delayMs) },
          'still no backbone',
        );
        await sleep(delayMs, signal).catch(() => undefined); // a stop ends the loop at its top
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
    this.hint(); // status, and whatever was appended meanwhile
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

/** What a driver threw means that the backbone is away; one of our errors says itself what it means. */
function asUnavailable(what: string, error: unknown): SyncError {
  return error instanceof SyncError ? error : unavailable(what, errorText(error), error);
}

async function connectHeld<S extends Session>(
  deps: KeeperDeps<S>,
  hint: SessionHooks['hint'],
  signal?: AbortSignal,
): Promise<Held<S>> {
  let lose: (error: unknown) => void = () => undefined;
  const lost = new Promise<never>((_resolve, reject) => {
    lose = reject;
  });
  lost.catch(() => undefined); // those who wait with a call get it
  const connecting = deps.connect({ hint, lost: (error) => lose(error) });
  try {
    return { session: await within(deps.times.connectMs, connecting, signal), lost, lose };
  } catch (error) {
    // It may still come: nobody wants it then.
    connecting.then(
      (session) => session.end(),
      () => undefined,
    );
    throw error;
  }
}

/** The result, or an error when it is not there in time, or not before the signal. */
async function within<T>(ms: number, work: Promise<T>, signal?: AbortSignal): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = (): void => undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${Math.round(ms)} ms`)), ms);
    onAbort = () => reject(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    if (signal?.aborted) onAbort();
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

async function prepared(session: Session): Promise<{ epoch: string; durability: Durability }> {
  const epoch = await session.prepare();
  return { epoch, durability: await session.durability() };
}
