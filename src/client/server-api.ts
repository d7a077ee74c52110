import { Agent, interceptors, request } from 'undici';
import type { z } from 'zod';
import { SyncError } from '../lib/errors.js';
import { redactUrl, type Secret } from '../lib/log.js';
import { type PolicyBundle, policyBundle } from '../wire/bundle.js';
import { type PeerDataConfig, parseKeepingData, peerDataConfig } from '../wire/data.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../wire/frames.js';

/** Time for one whole answer of the sync server: a first bundle of a large repository is built while we wait. */
const ANSWER_TIMEOUT_MS = 120_000;

/** Where the sync server is. */
export interface ServerApiOptions {
  readonly serverUrl: string;
  /** Default: `/data/config` of the server. */
  readonly dataConfigUrl: string | undefined;
  readonly token: Secret | undefined;
  readonly policyDirs: readonly string[];
}

/** The client's calls to a sync server, ours or OPAL's. */
export class ServerApi {
  readonly #options: ServerApiOptions;
  readonly #agent = new Agent({ connect: { timeout: 10_000 } }).compose(interceptors.redirect({ maxRedirections: 10 }));

  constructor(options: ServerApiOptions) {
    this.#options = options;
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

  async #get(url: string, signal: AbortSignal): Promise<string> {
    const timeout = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
    let status: number;
    let retryAfter: string | string[] | undefined;
    let text: string;
    try {
      const response = await request(url, {
        dispatcher: this.#agent,
        signal: AbortSignal.any([signal, timeout]),
        headers: {
          accept: 'application/json',
          [PROTOCOL_HEADER]: String(PROTOCOL_VERSION),
          ...(this.#options.token === undefined ? {} : { authorization: `Bearer ${this.#options.token.reveal()}` }),
        },
      });
      status = response.statusCode;
      retryAfter = response.headers['retry-after'];
      text = await response.body.text();
    } catch (cause) {
      signal.throwIfAborted();
      throw new SyncError('server_unreachable', `the sync server does not answer at ${redactUrl(url)}`, {
        cause,
        retryable: true,
      });
    }
    if (status === 200) return text;
    const seconds = Number(retryAfter);
    // 503: it starts, or its source is away; nothing newer is known (protocol-facts 2.2).
    const code = status === 503 ? 'policy_not_ready' : 'server_refused';
    throw new SyncError(code, `the sync server answered ${status} for ${redactUrl(url)}: ${text.slice(0, 300)}`, {
      retryable: true,
      ...(Number.isFinite(seconds) && seconds > 0 ? { retryAfterSeconds: Math.min(seconds, 300) } : {}),
    });
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
    throw new SyncError('server_refused', `the sync server's ${what} is not JSON`, { cause, retryable: true });
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const first = result.error.issues[0];
  throw new SyncError(
    'server_refused',
    `the sync server's ${what} is not as documented at ${first?.path.join('.')}: ${first?.message}`,
    { retryable: true },
  );
}
