import { type Dispatcher, request } from 'undici';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import { connectText, SERVER_CA } from '../../lib/net/connect-failure.js';
import { followRedirects, type HeaderValues } from '../../lib/net/http-response.js';
import { type Logger, redactUrl } from '../../lib/observe/log.js';
import { aborted, type BackoffOptions, backoffMs, sleep, TaskSet, withAnySignal } from '../../lib/run/async.js';
import { Limiter } from '../fetch/limiter.js';
import type { OutboundGate } from '../outbound/gate.js';
import { type CallbackRequest, type CallbackTarget, callbackRequest, type OwnServer, redirected } from './callbacks.js';

/** Attempts of one delivery: the first and three more. */
const ATTEMPTS = 4;
/** Requests under way; of these to one host. A host that hangs leaves the others their slots. */
const CONCURRENCY = { concurrency: 8, perHost: 2 };
/**
 * Bounds of the queue: deliveries, and characters of reports (a first load of 10,000 entries has
 * some millions).
 */
const QUEUE = { deliveries: 1000, chars: 64 * 1024 * 1024 };
const MAX_REDIRECTS = 5;
/** How much of a response body is read so that the connection can be reused. */
const DRAIN_BYTES = 16_384;
/** One of this many dropped reports is logged. */
const DROPS_PER_LINE = 100;

/** What the sender works with. */
export interface SenderOptions {
  /** Longest time of one attempt. */
  readonly timeoutMs: number;
  readonly backoff: BackoffOptions;
  readonly own: OwnServer;
  /** How much may wait. Default: {@link QUEUE}. */
  readonly queue?: { readonly deliveries: number; readonly chars: number };
}

/** Counts since the start. */
export interface SenderCounts {
  /** Deliveries that wait or are under way. */
  readonly queued: number;
  readonly delivered: number;
  /** Given up: refused, or no answer to any attempt. */
  readonly failed: number;
  /** Dropped unsent because too many waited. */
  readonly dropped: number;
  readonly last_error: string | null;
}

/** What the sender works with. */
export interface SenderDeps {
  /** For callbacks that the client's own settings name. */
  readonly dispatcher: Dispatcher;
  /** For those that a peer named, and for redirects; the gate decides where it leads. */
  readonly gated: Dispatcher;
  /** Says which methods and `Host` headers a peer may ask for. */
  readonly gate: Pick<OutboundGate, 'methodProblem' | 'checkHostHeader'>;
  readonly log: Logger;
}

interface CallbackAnswer {
  readonly status: number;
  readonly headers: HeaderValues;
}

interface Delivery {
  /** True for a callback of the client's own settings. */
  readonly isConfigured: boolean;
  readonly target: CallbackTarget;
  readonly text: string;
  readonly updateId: string | null;
  readonly abort: AbortController;
  /** True while a request is under way. */
  busy: boolean;
}

/**
 * Delivers reports to callbacks in the background: nothing waits for it, its queue is bounded, and
 * a failure is a line in the log and a count. Tried again after a failure of the connection or an
 * answer of 500 and above; not after one that says that the request itself is wrong.
 */
export class ReportSender {
  readonly #options: SenderOptions;
  readonly #deps: SenderDeps;
  readonly #log: Logger;
  readonly #limiter = new Limiter(CONCURRENCY);
  readonly #tasks: TaskSet;
  readonly #stop = new AbortController();
  #closed: Promise<void> | undefined;
  /** Oldest first. */
  readonly #queue = new Set<Delivery>();
  #chars = 0;
  readonly #counts = { delivered: 0, failed: 0, dropped: 0, last_error: null as string | null };

  constructor(options: SenderOptions, deps: SenderDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#log = deps.log;
    this.#tasks = new TaskSet(deps.log);
  }

  get counts(): SenderCounts {
    return { queued: this.#queue.size, ...this.#counts };
  }

  /**
   * Queues a report for a target and returns at once. `updateId` is for the log; `isConfigured`:
   * the client's own settings name this very target.
   */
  send(target: CallbackTarget, text: string, updateId: string | null, isConfigured: boolean): void {
    if (this.#stop.signal.aborted) return;
    const delivery: Delivery = { target, text, updateId, isConfigured, abort: new AbortController(), busy: false };
    this.#queue.add(delivery);
    this.#chars += text.length;
    this.#dropOldest(delivery);
    this.#tasks.add(this.#deliver(delivery));
  }

  /** Runs until the signal aborts; then drops what is queued. */
  async run(signal: AbortSignal): Promise<void> {
    await aborted(signal);
    await this.close();
  }

  /** Ends all deliveries and connections. Twice is once. */
  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    this.#stop.abort();
    for (const { abort } of this.#queue) abort.abort();
    await this.#tasks.settled();
    await this.#deps.dispatcher.destroy();
    await this.#deps.gated.destroy();
  }

  /**
   * Keeps the queue within its bounds. What is under way is left alone: it may have arrived
   * already.
   */
  #dropOldest(newest: Delivery): void {
    const { deliveries, chars } = this.#options.queue ?? QUEUE;
    for (const delivery of this.#queue) {
      if (this.#queue.size <= deliveries && this.#chars <= chars) return;
      if (delivery.busy || delivery === newest) continue;
      this.#leave(delivery);
      delivery.abort.abort();
      this.#counts.dropped++;
      if (this.#counts.dropped % DROPS_PER_LINE === 1) {
        this.#log.warn(
          { dropped: this.#counts.dropped },
          'too many reports wait for their callbacks: the oldest are dropped',
        );
      }
    }
  }

  #leave(delivery: Delivery): void {
    if (this.#queue.delete(delivery)) this.#chars -= delivery.text.length;
  }

  async #deliver(delivery: Delivery): Promise<void> {
    const { target, text, abort, updateId } = delivery;
    try {
      const first = callbackRequest(target, text, this.#options.own, delivery.isConfigured);
      for (let attempt = 1; ; attempt++) {
        try {
          await this.#limiter.run(first.url.host, abort.signal, () => this.#attempt(delivery, first));
          this.#counts.delivered++;
          return;
        } catch (error) {
          if (abort.signal.aborted) return;
          const isLast = attempt === ATTEMPTS || !(error instanceof SyncError && error.retryable);
          const line = { url: redactUrl(target.url), update_id: updateId, attempt, ...failureFields(error) };
          if (isLast) {
            this.#counts.failed++;
            this.#counts.last_error = errorText(error);
            this.#log.warn(line, 'a report was not delivered');
            return;
          }
          this.#log.info(line, 'a callback failed, will try again');
        }
        try {
          await sleep(backoffMs(attempt, this.#options.backoff), abort.signal);
        } catch {
          return; // Dropped, or the client stops.
        }
      }
    } finally {
      this.#leave(delivery);
    }
  }

  /** One attempt, redirects included. Throws `callback_failed`. */
  #attempt(delivery: Delivery, first: CallbackRequest): Promise<void> {
    const once = (signal: AbortSignal): Promise<void> => this.#attemptWithin(delivery, first, signal);
    return withAnySignal([delivery.abort.signal], once, this.#options.timeoutMs);
  }

  async #attemptWithin(delivery: Delivery, first: CallbackRequest, signal: AbortSignal): Promise<void> {
    if (!delivery.isConfigured) await this.#checkRequest(first);
    delivery.busy = true;
    try {
      const { request: last, response } = await followRedirects<CallbackRequest, CallbackAnswer>(first, {
        max: MAX_REDIRECTS,
        send: (at) => {
          const isOurs = delivery.isConfigured && at.url.origin === first.url.origin;
          return this.#ask(at, isOurs ? this.#deps.dispatcher : this.#deps.gated, signal);
        },
        next: redirected,
        fail: (at, why) => failure(at, why, false),
      });
      const { status } = response;
      if (status < 200 || status > 299) throw failure(last, `answered ${status}`, status >= 500);
    } finally {
      delivery.busy = false;
    }
  }

  /** Throws for what a peer may not ask for, apart from where it leads. */
  async #checkRequest(first: CallbackRequest): Promise<void> {
    const { gate } = this.#deps;
    const problem = gate.methodProblem(first.method);
    if (problem !== undefined) throw failure(first, problem, false);
    try {
      await gate.checkHostHeader(first.url, first.headers.host);
    } catch (cause) {
      throw failure(first, errorText(cause), false, cause);
    }
  }

  async #ask(at: CallbackRequest, dispatcher: Dispatcher, signal: AbortSignal): Promise<CallbackAnswer> {
    const { url, method, headers, body } = at;
    let answer: Dispatcher.ResponseData;
    try {
      answer = await request(url, { dispatcher, method, headers, body, signal });
    } catch (cause) {
      // The name of a callback does not change within the tries of one delivery.
      if (cause instanceof SyncError) throw failure(at, cause.message, false, cause);
      const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
      const isTimeout = cause instanceof Error && cause.name === 'TimeoutError';
      const why = isTimeout ? `no answer within ${this.#options.timeoutMs / 1000} s` : connectText(cause, SERVER_CA);
      throw failure(at, why, code !== 'UND_ERR_INVALID_ARG', cause);
    }
    // Only the status counts; a failure of the body changes nothing.
    answer.body.on('error', () => undefined);
    await answer.body.dump({ limit: DRAIN_BYTES, signal }).catch(() => undefined);
    // 303: the report was taken, and there is a page about it.
    return { status: answer.statusCode === 303 ? 200 : answer.statusCode, headers: answer.headers };
  }
}

function failure(at: CallbackRequest, why: string, retryable: boolean, cause?: unknown): SyncError {
  return new SyncError('callback_failed', `${at.method} ${redactUrl(at.url.href)}: ${why}`, { retryable, cause });
}
