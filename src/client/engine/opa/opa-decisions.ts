import { setMaxListeners } from 'node:events';
import { Agent, request } from 'undici';
import * as z from 'zod';
import type { EngineAnswer, EngineQuestion } from '../../../embedded/vocabulary.js';
import { SyncError } from '../../../lib/errors.js';
import { jsonOrUndefined, members } from '../../../lib/json/json-text.js';
import { httpConnector } from '../../../lib/net/connect.js';
import type { OutgoingTls } from '../../../lib/net/tls.js';
import { redactUrl } from '../../../lib/observe/log.js';
import { withAnySignal } from '../../../lib/run/async.js';
import type { DecisionEngine } from '../decision-engine.js';
import { type EngineAuth, withoutCredentials } from './engine-auth.js';

/**
 * Questions to OPA at the same time; others wait for a connection. OPA answers no faster with more.
 */
const CONNECTIONS = 32;

/** OPA's error body, as far as a message has it. */
const errorBody = z.object({
  message: z.string(),
  errors: z.array(z.object({ message: z.string() })).optional(),
});

/** Options of {@link OpaDecisions}. */
export interface OpaDecisionsOptions {
  /** Base address without `/v1`. */
  readonly url: string;
  readonly timeoutMs: number;
  /** Credentials for the engine. */
  readonly auth: EngineAuth;
  readonly tls: OutgoingTls;
  /** Whether the engine holds the state of this client. Rejects if it cannot be reached. */
  readonly isOurs: (signal: AbortSignal) => Promise<boolean>;
}

/**
 * Asks an OPA, inline or external, over REST; with connections of its own, so that no write delays
 * a decision.
 */
export class OpaDecisions implements DecisionEngine {
  readonly #options: OpaDecisionsOptions;
  readonly #agent: Agent;
  readonly #closing = new AbortController();

  constructor(options: OpaDecisionsOptions) {
    this.#options = options;
    setMaxListeners(0, this.#closing.signal); // one for each question under way
    this.#agent = new Agent({
      connect: httpConnector({ timeoutMs: options.timeoutMs, tls: options.tls }),
      connections: CONNECTIONS,
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  async decide({ path, input }: EngineQuestion): Promise<EngineAnswer> {
    const url = `${this.#options.url}/v1/data/${path}`;
    const body = input === undefined ? '{}' : `{"input":${input}}`;
    try {
      return await withAnySignal(
        [this.#closing.signal],
        (signal) => this.#ask(url, body, signal),
        this.#options.timeoutMs,
      );
    } catch (error) {
      throw this.#failure(path, error);
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new SyncError('already_stopped', 'this client was stopped'));
    await this.#agent.destroy();
  }

  async #ask(url: string, body: string, signal: AbortSignal): Promise<EngineAnswer> {
    const { status, text } = await this.#send(url, body, signal);
    if (status !== 200) throw refusal(status, text);
    const answer = answerOf(text);
    // An engine that was restarted a moment ago knows no policy: that is not a policy without an
    // answer.
    if (answer.text === undefined && !(await this.#options.isOurs(signal))) {
      throw new SyncError(
        'decision_not_ready',
        'the policy engine does not hold policy and data of this client (it restarted)',
        {
          retryable: true,
        },
      );
    }
    return answer;
  }

  /** Retries once with newer credentials if the engine rejected these. */
  async #send(url: string, body: string, signal: AbortSignal): Promise<{ status: number; text: string }> {
    const { auth } = this.#options;
    for (let attempt = 1; ; attempt++) {
      const authorization = await auth.authorization(signal);
      const response = await request(url, {
        method: 'POST',
        dispatcher: this.#agent,
        signal,
        body,
        headers: {
          'content-type': 'application/json',
          ...(authorization === undefined ? {} : { authorization }),
        },
      });
      const text = await response.body.text();
      if (response.statusCode !== 401 || attempt > 1 || !auth.renew(authorization)) {
        return withoutCredentials({ status: response.statusCode, text }, authorization);
      }
    }
  }

  #failure(path: string, error: unknown): SyncError {
    if (error instanceof SyncError) return error;
    if (this.#closing.signal.aborted)
      return new SyncError('already_stopped', 'this client was stopped', { cause: error });
    const { url, timeoutMs } = this.#options;
    if (error instanceof Error && error.name === 'TimeoutError') {
      return new SyncError('decision_timeout', `the policy engine did not decide ${path} within ${timeoutMs} ms`, {
        cause: error,
        retryable: true,
      });
    }
    const message = `the policy engine at ${redactUrl(url).replace(/\/$/, '')} cannot be reached for the decision ${path}`;
    return new SyncError('engine_unreachable', message, { cause: error, retryable: true });
  }
}

function answerOf(body: string): EngineAnswer {
  const text = resultText(body);
  const id = body.includes('"decision_id"') ? idOf(body) : undefined;
  return { text, by: 'opa', policy: undefined, id };
}

/** The result as OPA wrote it; undefined if there is none. */
function resultText(body: string): string | undefined {
  const text = body.trimEnd();
  if (text === '{"result":true}') return 'true';
  if (text === '{"result":false}') return 'false';
  return membersOf(text).get('result');
}

/** The id under which OPA logs the decision; it has one only if its decision log is on. */
function idOf(body: string): string | undefined {
  const text = membersOf(body.trimEnd()).get('decision_id');
  const id = text === undefined ? undefined : jsonOrUndefined(text);
  return typeof id === 'string' ? id : undefined;
}

function membersOf(text: string): Map<string, string> {
  try {
    return members(text);
  } catch (cause) {
    throw new SyncError(
      'decision_failed',
      `the policy engine answered with something that is not JSON: ${text.slice(0, 200)}`,
      {
        cause,
      },
    );
  }
}

/** What OPA answers in place of a result. */
function refusal(status: number, text: string): SyncError {
  const parsed = errorBody.safeParse(jsonOrUndefined(text));
  const { message, errors = [] } = parsed.success ? parsed.data : { message: text.slice(0, 200) };
  const reason = [message, ...errors.map((each) => each.message)].join(': ');
  if (status === 401 || status === 403) {
    return new SyncError('engine_unauthorized', `the policy engine does not let us ask (${status}): ${reason}`, {
      retryable: true,
    });
  }
  return new SyncError('decision_failed', `the policy engine could not decide (${status}): ${reason}`, {
    retryable: status >= 502,
  });
}
