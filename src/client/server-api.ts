import { Agent, type Dispatcher, request } from 'undici';
import type { z } from 'zod';
import { SyncError } from '../lib/errors.js';
import { redactUrl, type Secret } from '../lib/log.js';
import { type PolicyBundle, policyBundle } from '../wire/bundle.js';
import { type PeerDataConfig, parseKeepingData, peerDataConfig } from '../wire/data.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../wire/frames.js';
import { headerText, isRedirect } from './fetch/http-rules.js';

/** Time for one whole answer of the sync server: a first bundle of a large repository is built while we wait. */
const ANSWER_TIMEOUT_MS = 120_000;
/** More is taken for a circle. */
const MAX_REDIRECTS = 10;

/** Where the sync server is. */
export interface ServerApiOptions {
  readonly serverUrl: string;
  /** Default: `/data/config` of the server. */
  readonly dataConfigUrl: string | undefined;
  readonly token: Secret | undefined;
  readonly policyDirs: readonly string[];
  /** Its connections; they end with the API. Default: directly, with the well-known authorities. */
  readonly dispatcher?: Dispatcher;
}

/** The client's calls to a sync server, ours or OPAL's. */
export class ServerApi {
  readonly #options: ServerApiOptions;
  readonly #agent: Dispatcher;

  constructor(options: ServerApiOptions) {
    this.#options = options;
    this.#agent = options.dispatcher ?? new Agent({ connect: { timeout: 10_000 } });
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  /** `GET /policy`: a delta from `baseHash`, or the complete bundle. */
  async policy(baseHash: string | undefined, signal: AbortSignal): Promise<PolicyBundle> {
    const query = new URLSearchParams(this.#options.policyDirs.map((dir): [string, string] => ['path', dir]));
    if (baseHash !== undefined) query.append('base_hash', baseHash);
    const text = await this.#get(`${this.#options.serverUrl}/policy?${query}`, signal);
    return parsed(policyBundle, JSON.parse, text, 'policy bundle');
  }

  /** `GET /data/config`: base entries and retained updates. */
  async dataConfig(signal: AbortSignal): Promise<PeerDataConfig> {
    const text = await this.#get(this.#options.dataConfigUrl ?? `${this.#options.serverUrl}/data/config`, signal);
    return parsed(peerDataConfig, parseKeepingData, text, 'data configuration');
  }

  /** `GET /loadlimit`: returns when the server takes one more client, throws (with its `Retry-After`) when it does not. */
  async loadLimit(signal: AbortSignal): Promise<void> {
    await this.#get(`${this.#options.serverUrl}/loadlimit`, signal);
  }

  /** Follows redirects: `GET /data/config` may lead to an external API (spec "External data source API"). */
  async #get(url: string, signal: AbortSignal): Promise<string> {
    const within = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]);
    let at = new URL(url);
    for (let redirects = 0; ; redirects++) {
      const who = redirects === 0 ? 'the sync server' : 'the API that the sync server redirects to';
      let answer: { status: number; headers: Dispatcher.ResponseData['headers']; text: string };
      try {
        answer = await this.#ask(at, at.origin === new URL(url).origin, within);
      } catch (cause) {
        signal.throwIfAborted();
        const message = `${who} does not answer at ${redactUrl(at.href)}`;
        throw new SyncError('server_unreachable', message, { cause, retryable: true });
      }
      const { status, headers, text } = answer;
      if (status === 200) return text;
      const location = headerText(headers.location) ?? '';
      if (isRedirect(status) && URL.canParse(location, at.href) && redirects < MAX_REDIRECTS) {
        at = new URL(location, at);
        continue;
      }
      const seconds = Number(headerText(headers['retry-after']));
      // 503: it starts, or its source is away; nothing newer is known (protocol-facts 2.2).
      const code = status === 503 ? 'policy_not_ready' : 'server_refused';
      const said = this.#withoutToken(text).slice(0, 300);
      throw new SyncError(code, `${who} answered ${status} for ${redactUrl(at.href)}: ${said}`, {
        retryable: true,
        ...(Number.isFinite(seconds) && seconds > 0 ? { retryAfterSeconds: Math.min(seconds, 300) } : {}),
      });
    }
  }

  /** The token goes to the server alone; where that redirects to, it is in the address. */
  async #ask(
    url: URL,
    isServer: boolean,
    signal: AbortSignal,
  ): Promise<{ status: number; headers: Dispatcher.ResponseData['headers']; text: string }> {
    const { token } = this.#options;
    const { statusCode, headers, body } = await request(url, {
      dispatcher: this.#agent,
      signal,
      headers: {
        accept: 'application/json',
        [PROTOCOL_HEADER]: String(PROTOCOL_VERSION),
        ...(token === undefined || !isServer ? {} : { authorization: `Bearer ${token.reveal()}` }),
      },
    });
    return { status: statusCode, headers, text: await body.text() };
  }

  /** Some APIs repeat what they were asked. */
  #withoutToken(text: string): string {
    const token = this.#options.token?.reveal() ?? '';
    return token === '' ? text : text.replaceAll(token, '***');
  }
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
  const first = result.error.issues[0];
  throw new SyncError(
    'server_refused',
    `the ${what} is not as documented at ${first?.path.join('.')}: ${first?.message}`,
    { retryable: true },
  );
}
