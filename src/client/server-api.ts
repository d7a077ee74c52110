import type { Dispatcher } from 'undici';
import type * as z from 'zod';
import { type ErrorCode, errorText, firstIssue, SyncError } from '../lib/errors.js';
import { parseJson } from '../lib/json/json.js';
import { connectFailure, SERVER_CA } from '../lib/net/connect-failure.js';
import { followRedirects, retryAfterSeconds } from '../lib/net/http-response.js';
import { serverAddress } from '../lib/net/server-address.js';
import { requestServer, type ServerAnswer, ServerCaller } from '../lib/net/server-request.js';
import { redactUrl, type Secret } from '../lib/observe/log.js';
import { validTraceparent } from '../lib/observe/tracing.js';
import { withAnySignal } from '../lib/run/async.js';
import { type PolicyBundle, policyBundle } from '../wire/bundle.js';
import { parseKeepingUpdates, type UpdatesPage, type UpdatesQuery, updatesPage } from '../wire/catch-up-page.js';
import { type PeerDataConfig, peerDataConfig } from '../wire/data.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../wire/frames.js';
import { parseKeepingData } from '../wire/inline-data.js';
import { type Hop, nextHop } from './fetch/http-rules.js';

/**
 * Time for one whole answer of the sync server: a first bundle of a large repository is built while
 * we wait.
 */
const ANSWER_TIMEOUT_MS = 120_000;
/** More are treated as a loop. */
const MAX_REDIRECTS = 10;
/** Upper bound of `Retry-After`. */
const RETRY_AFTER_MAX_SECONDS = 300;

/**
 * 503: the server starts, or its source is unreachable (opal-protocol P2.2). 501: it does not have
 * this.
 */
const REFUSALS: Readonly<Record<number, ErrorCode>> = {
  401: 'token_refused',
  501: 'not_enabled',
  503: 'policy_not_ready',
};

/** Where the sync server is. */
export interface ServerApiOptions {
  readonly serverUrl: string;
  /** Default: `/data/config` of the server. */
  readonly dataConfigUrl: string | undefined;
  readonly token: Secret | undefined;
  readonly policyDirs: readonly string[];
  /** Largest answer that is read. */
  readonly limitBytes?: number;
  /** Its connections; they end with the API. */
  readonly dispatcher: Dispatcher;
  /** Connections to where the server redirects to, through the gate; they end with the API, too. */
  readonly gated: Dispatcher;
  /**
   * Called when the data configuration or the updates cannot be read: they may list entries that
   * are missing here.
   */
  readonly onDataFailed?: (reason: string) => void;
}

/** The client's calls to a sync server, ours or OPAL's. */
export class ServerApi {
  readonly #options: ServerApiOptions;
  readonly #caller: ServerCaller;

  constructor(options: ServerApiOptions) {
    this.#options = options;
    this.#caller = new ServerCaller(options.serverUrl, options.token, [options.dataConfigUrl ?? '']);
  }

  async close(): Promise<void> {
    await this.#options.dispatcher.destroy();
    await this.#options.gated.destroy();
  }

  /** `GET /policy`: a delta from `baseHash`, or the complete bundle. */
  async policy(
    baseHash: string | undefined,
    signal: AbortSignal,
  ): Promise<PolicyBundle & { readonly traceparent: string | undefined }> {
    const query = new URLSearchParams(this.#options.policyDirs.map((dir): [string, string] => ['path', dir]));
    if (baseHash !== undefined) query.append('base_hash', baseHash);
    const { text, headers } = await this.#answer(this.#address('/policy', query), signal);
    const bundle = parsed(policyBundle, parseJson, text, 'policy bundle');
    return { ...bundle, traceparent: validTraceparent(headers.traceparent) };
  }

  /** `GET /data/config`: base entries and retained updates. */
  async dataConfig(signal: AbortSignal): Promise<PeerDataConfig> {
    return this.#dataConfig(this.#options.dataConfigUrl ?? this.#address('/data/config'), signal);
  }

  /**
   * The base entries alone: `GET /data/config?origin=base` of a server of ours, which may lead to
   * an external API; an address of its own (SYNC_DEFAULT_DATA_SOURCES_CONFIG_URL) is requested as
   * it is.
   */
  async baseConfig(signal: AbortSignal): Promise<PeerDataConfig> {
    const url = this.#options.dataConfigUrl ?? this.#address('/data/config', new URLSearchParams({ origin: 'base' }));
    const config = await this.#dataConfig(url, signal);
    return { ...config, entries: config.entries.filter(({ origin }) => origin !== 'update') };
  }

  /**
   * `GET /data/updates` of a server of ours: a page of updates after a position. Throws
   * `not_enabled` where it retains none.
   */
  async updates({ epoch, after, topics, limit, from, ended }: UpdatesQuery, signal: AbortSignal): Promise<UpdatesPage> {
    const query = new URLSearchParams({ after: String(after), topics: topics.join(','), limit: String(limit) });
    if (epoch !== undefined) query.set('epoch', epoch);
    if (from !== undefined) query.set('from', from);
    if (ended === true) query.set('ended', 'true');
    const read = async (): Promise<UpdatesPage> => {
      const text = await this.#get(this.#address('/data/updates', query), signal);
      return parsed(updatesPage, parseKeepingUpdates, text, 'list of data updates');
    };
    return this.#tellingFailure(read, signal);
  }

  /**
   * `GET /loadlimit`: rejects, with the server's `Retry-After`, while the server has no capacity
   * for one more client.
   */
  async loadLimit(signal: AbortSignal): Promise<void> {
    await this.#get(this.#address('/loadlimit'), signal);
  }

  #dataConfig(url: string, signal: AbortSignal): Promise<PeerDataConfig> {
    const read = async (): Promise<PeerDataConfig> =>
      parsed(peerDataConfig, parseKeepingData, await this.#get(url, signal), 'data configuration');
    return this.#tellingFailure(read, signal);
  }

  async #tellingFailure<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await read();
    } catch (error) {
      const isFailure = !(error instanceof SyncError && error.code === 'not_enabled');
      if (isFailure && !signal.aborted) this.#options.onDataFailed?.(errorText(error));
      throw error;
    }
  }

  #address(path: string, query?: URLSearchParams): string {
    return serverAddress(this.#options.serverUrl, path, query);
  }

  async #get(url: string, signal: AbortSignal): Promise<string> {
    return (await this.#answer(url, signal)).text;
  }

  #answer(url: string, signal: AbortSignal): Promise<ServerAnswer> {
    return withAnySignal([signal], (within) => this.#follow(url, within, signal), ANSWER_TIMEOUT_MS);
  }

  /**
   * Follows redirects: `GET /data/config` may lead to an external API (specification "External data
   * source API").
   */
  async #follow(url: string, within: AbortSignal, signal: AbortSignal): Promise<ServerAnswer> {
    const first = this.#firstHop(url);
    let who = 'the sync server';
    const refused = ({ url: place }: Hop, { status, headers, text }: ServerAnswer): SyncError => {
      const seconds = retryAfterSeconds(headers, RETRY_AFTER_MAX_SECONDS) ?? 0;
      const said = this.#caller.said(text).slice(0, 300);
      const message = `${who} answered ${status} for ${redactUrl(place.href)}: ${said}`;
      const wait = seconds > 0 ? { retryAfterSeconds: seconds } : {};
      const isWithoutPolicy = headers['x-sync-error'] === ('policy_source_none' satisfies ErrorCode);
      const code = isWithoutPolicy ? 'policy_source_none' : (REFUSALS[status] ?? 'server_refused');
      return new SyncError(code, message, { retryable: true, ...wait });
    };
    const { request: hop, response: answer } = await followRedirects<Hop, ServerAnswer>(first, {
      max: MAX_REDIRECTS,
      send: async (hop, redirects) => {
        if (redirects > 0) who = 'the API that the sync server redirects to';
        const { dispatcher: own, gated, limitBytes } = this.#options;
        const { url, method, headers } = hop;
        const dispatcher = url.origin === first.url.origin ? own : gated;
        try {
          return await requestServer(url, { dispatcher, signal: within, headers, method, limitBytes });
        } catch (cause) {
          signal.throwIfAborted();
          throw noAnswer(who, redactUrl(hop.url.href), cause);
        }
      },
      next: (from, to, { status }) => nextHop(from, to, status, { accept: 'application/json' }),
      fail: (hop, _why, answer) => refused(hop, answer),
    });
    if (answer.status !== 200) throw refused(hop, answer);
    return answer;
  }

  /** Sends the token to the server alone; a redirect carries its own in the address. */
  #firstHop(url: string): Hop {
    const place = new URL(url);
    const authorization = this.#caller.authorization(place);
    place.username = '';
    place.password = '';
    const headers = {
      accept: 'application/json',
      [PROTOCOL_HEADER]: String(PROTOCOL_VERSION),
      ...authorization,
    };
    return { url: place, method: 'GET', headers, conditional: false };
  }
}

function noAnswer(who: string, place: string, cause: unknown): SyncError {
  if (!(cause instanceof SyncError)) {
    const message = `${who} does not answer at ${place}`;
    return connectFailure(cause, { message, code: 'server_unreachable', caSetting: SERVER_CA, retryable: true });
  }
  if (cause.code === 'answer_too_large') {
    const message = `${cause.message} (SYNC_SERVER_ANSWER_LIMIT_BYTES): ${place}`;
    return new SyncError(cause.code, message, { retryable: true });
  }
  return new SyncError(cause.code, `the sync server redirects to ${place}: ${cause.message}`, {
    cause,
    retryable: true,
  });
}

function parsed<S extends z.ZodType>(
  schema: S,
  parse: (text: string) => unknown,
  text: string,
  what: string,
): z.infer<S> {
  let value: unknown;
  try {
    value = parse(text);
  } catch (cause) {
    throw new SyncError('server_refused', `the ${what} is not JSON`, { cause, retryable: true });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new SyncError('server_refused', `the ${what} is not as documented at ${firstIssue(result.error)}`, {
    retryable: true,
  });
}
