import { type Dispatcher, request } from 'undici';
import * as z from 'zod';
import { failureFields, SyncError } from '../../../lib/errors.js';
import { jsonOrUndefined } from '../../../lib/json/json-text.js';
import { Pieces } from '../../../lib/net/pieces.js';
import { type Logger, redactUrl, Secret } from '../../../lib/observe/log.js';
import { unlessAborted, withAnySignal } from '../../../lib/run/async.js';

/** Credentials for the engine, for each call. */
export interface EngineAuth {
  /**
   * Value of `Authorization` for the next call; undefined: none. Rejects with `engine_auth_failed`.
   */
  authorization(signal: AbortSignal): Promise<string | undefined>;
  /**
   * Called when the engine rejected this value with 401. Returns true if the next value differs, so
   * that a retry makes sense.
   */
  renew(refused: string | undefined): boolean;
  /** Closes open connections. */
  close(): Promise<void>;
}

/**
 * What an engine says of a call that failed, without the credentials of the call: a proxy in front
 * of it may repeat them. Pure.
 */
export function withoutCredentials<A extends { readonly status: number; readonly text: string }>(
  answer: A,
  authorization: string | undefined,
): A {
  if (answer.status < 300 || authorization === undefined) return answer;
  const credentials = new Secret(authorization.slice(authorization.indexOf(' ') + 1));
  return { ...answer, text: credentials.hideIn(answer.text) };
}

/** Fixed credentials: none, or a bearer token (opal-protocol P6.2). */
export function fixedAuth(token?: Secret): EngineAuth {
  return {
    authorization: async () => (token === undefined ? undefined : `Bearer ${token.reveal()}`),
    renew: () => false,
    close: async () => undefined,
  };
}

/** Options of {@link Oauth}. */
export interface OauthOptions {
  /** The token endpoint. */
  readonly server: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  /** Timeout of a token request. */
  readonly timeoutMs: number;
  /** Minimum time between two renewals after a 401. Default 5 s. */
  readonly renewalIntervalMs?: number;
}

/** Dependencies of {@link Oauth}. */
export interface OauthDeps {
  readonly log: Logger;
  /** Its connections; `close` destroys it. */
  readonly dispatcher: Dispatcher;
  /** A monotonic clock, in milliseconds. */
  readonly now?: () => number;
}

/**
 * A token is renewed this long before it expires, or as long as this many requests may take, but
 * not before half of its lifetime: this leaves time for a retry if the token endpoint hangs.
 */
const EARLY_MS = 10_000;
const EARLY_TRIES = 3;
const RENEWAL_INTERVAL_MS = 5_000;
/** Maximum size of a response, in bytes. */
const ANSWER_LIMIT = 64 * 1024;

/** Response of a token endpoint (RFC 6749, 5.1). Some servers write the seconds as text. */
const tokenAnswer = z.object({
  access_token: z.string().regex(/^[\x21-\x7e]+$/),
  expires_in: z.coerce.number().positive().optional(),
});
/** Error response (RFC 6749, 5.2). Only the code is shown: the rest may repeat a secret. */
const tokenRefusal = z.object({ error: z.string().regex(/^[\w.-]{1,64}$/) });

interface Token {
  readonly value: Secret;
  readonly renewAt: number;
  readonly endsAt: number;
}

/**
 * Tokens by OAuth 2.0 client credentials (RFC 6749, 4.4): HTTP Basic with id and secret as written,
 * and one request at a time, which all calls share. Renews a token before it expires, and after the
 * engine rejected it with 401. Until the new token arrives, calls use the old one without waiting,
 * while it is valid.
 */
export class Oauth implements EngineAuth {
  readonly #options: OauthOptions;
  readonly #deps: OauthDeps;
  readonly #renewalIntervalMs: number;
  readonly #now: () => number;
  readonly #stop = new AbortController();
  readonly #credentials: Secret;
  #token: Token | undefined;
  #asking: Promise<Token> | undefined;
  #renewedAt: number | undefined;
  /** When the last early renewal failed. */
  #failedAt: number | undefined;

  constructor(options: OauthOptions, deps: OauthDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#renewalIntervalMs = options.renewalIntervalMs ?? RENEWAL_INTERVAL_MS;
    this.#now = deps.now ?? (() => performance.now());
    this.#credentials = new Secret(
      Buffer.from(`${options.clientId}:${options.clientSecret.reveal()}`).toString('base64'),
    );
  }

  async authorization(signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    let current = this.#token;
    if (current === undefined || this.#now() >= current.endsAt) current = await unlessAborted(this.#ask(), signal);
    else if (this.#now() >= current.renewAt) this.#renewAhead();
    return `Bearer ${current.value.reveal()}`;
  }

  renew(refused: string | undefined): boolean {
    // Another call has renewed it meanwhile.
    if (this.#token === undefined || refused !== `Bearer ${this.#token.value.reveal()}`) return true;
    // A fresh token that is rejected is not too old: do not request a new one for every call.
    if (this.#renewedAt !== undefined && this.#now() - this.#renewedAt < this.#renewalIntervalMs) return false;
    this.#renewedAt = this.#now();
    this.#token = undefined;
    return true;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#asking?.catch(() => undefined); // its callers report the failure
    await this.#deps.dispatcher.destroy();
  }

  /** Joins the request in progress. No caller owns it, so that none aborts it for the others. */
  #ask(): Promise<Token> {
    this.#asking ??= this.#askServer()
      .then((fresh) => {
        this.#token = fresh;
        return fresh;
      })
      .finally(() => {
        this.#asking = undefined;
      });
    return this.#asking;
  }

  async #askServer(): Promise<Token> {
    const { clientSecret, timeoutMs } = this.#options;
    const askedAt = this.#now();
    const { status, text } = await this.#sendInTime();
    const parsed = status === 200 ? tokenAnswer.safeParse(jsonOrUndefined(text)) : undefined;
    if (parsed === undefined) {
      const refusal = tokenRefusal.safeParse(jsonOrUndefined(text));
      const said = refusal.success ? ` ${this.#credentials.hideIn(clientSecret.hideIn(refusal.data.error))}` : '';
      throw this.#failure(`answered ${status}${said}`);
    }
    if (!parsed.success) throw this.#failure('answered 200 without an access_token');
    const { access_token, expires_in } = parsed.data;
    const lifeMs = expires_in === undefined ? Number.POSITIVE_INFINITY : expires_in * 1000;
    this.#deps.log.debug({ expires_in: expires_in ?? null }, 'a new token for the engine');
    return {
      value: new Secret(access_token),
      renewAt: askedAt + Math.max(lifeMs - Math.max(EARLY_MS, EARLY_TRIES * timeoutMs), lifeMs / 2),
      endsAt: askedAt + lifeMs,
    };
  }

  /** Requests the next token while the current one is in use. */
  #renewAhead(): void {
    const isTooEarly = this.#failedAt !== undefined && this.#now() - this.#failedAt < this.#renewalIntervalMs;
    if (this.#asking !== undefined || isTooEarly) return;
    this.#ask().then(
      () => {
        this.#failedAt = undefined;
      },
      (error: unknown) => {
        this.#failedAt = this.#now();
        if (!this.#stop.signal.aborted) {
          this.#deps.log.warn(failureFields(error), 'the token for the engine could not be renewed yet');
        }
      },
    );
  }

  async #send(signal: AbortSignal): Promise<{ status: number; text: string }> {
    const answer = await request(this.#options.server, {
      method: 'POST',
      dispatcher: this.#deps.dispatcher,
      signal,
      headers: {
        accept: 'application/json',
        authorization: `Basic ${this.#credentials.reveal()}`,
        'content-type': 'application/x-www-form-urlencoded;charset=UTF-8',
      },
      body: 'grant_type=client_credentials',
    });
    const pieces = new Pieces();
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      pieces.push(chunk);
      if (pieces.bytes > ANSWER_LIMIT) throw new Error(`the answer is longer than ${ANSWER_LIMIT} bytes`);
    }
    return { status: answer.statusCode, text: pieces.join().toString('utf8') };
  }

  async #sendInTime(): Promise<{ status: number; text: string }> {
    const { timeoutMs } = this.#options;
    try {
      return await withAnySignal([this.#stop.signal], (signal) => this.#send(signal), timeoutMs);
    } catch (cause) {
      const isLate = cause instanceof Error && cause.name === 'TimeoutError';
      throw this.#failure(isLate ? `did not answer within ${timeoutMs} ms` : 'cannot be reached', cause);
    }
  }

  #failure(why: string, cause?: unknown): SyncError {
    const server = redactUrl(this.#options.server);
    return new SyncError('engine_auth_failed', `no token for the engine: ${server} ${why}`, { cause, retryable: true });
  }
}
