import { type Dispatcher, request } from 'undici';
import { Secret } from '../observe/log.js';
import { errorBodyText } from '../observe/problem-text.js';
import { basicAuthorization, bodyStart, bodyText, type HeaderValues } from './http-response.js';
import { secretsOfUrl } from './server-address.js';

/** The one way in which clients and commands call the API of a sync server or client. */

/** Bytes that are read of a refusal: its message, and so that the connection can be reused. */
const REFUSAL_BYTES = 16_384;
/** Largest answer that is read, unless a limit is set. */
const ANSWER_LIMIT_BYTES = 256 * 1024 * 1024;

/** One request; it follows no redirect. */
export interface ServerRequest {
  readonly dispatcher: Dispatcher;
  readonly signal: AbortSignal;
  readonly headers: Readonly<Record<string, string>>;
  readonly method?: Dispatcher.HttpMethod;
  readonly body?: string;
  /** Statuses whose whole body is wanted. Default: 200. */
  readonly good?: readonly number[];
  readonly limitBytes?: number | undefined;
}

/** A response; if its status is not good, `text` is the start of the body. */
export interface ServerAnswer {
  readonly status: number;
  readonly headers: HeaderValues;
  readonly text: string;
}

/** Rejects with `answer_too_large`, or with the failure of the connection. */
export async function requestServer(url: URL, { good, limitBytes, ...options }: ServerRequest): Promise<ServerAnswer> {
  return readAnswer(await openAnswer(url, options), good, limitBytes);
}

/** The same without reading the body, which may go on. */
export function openAnswer(
  url: URL,
  options: Omit<ServerRequest, 'good' | 'limitBytes'>,
): Promise<Dispatcher.ResponseData> {
  return request(url, options);
}

/** Reads the body of a response: the whole one if the status is good. */
export async function readAnswer(
  answer: Dispatcher.ResponseData,
  good: readonly number[] = [200],
  limitBytes = ANSWER_LIMIT_BYTES,
): Promise<ServerAnswer> {
  const { statusCode: status, headers, body } = answer;
  const text = good.includes(status)
    ? await bodyText(answer, limitBytes)
    : (await bodyStart(body, REFUSAL_BYTES)).toString('utf8');
  return { status, headers, text };
}

/** Who calls a server: with a token, or as the user of its URL. */
export class ServerCaller {
  readonly #url: URL;
  readonly #token: Secret | undefined;
  readonly #secrets: readonly Secret[];

  /** `others`: addresses whose secrets a response may repeat, too. */
  constructor(url: string, token: Secret | undefined, others: readonly string[] = []) {
    this.#url = new URL(url);
    this.#token = token;
    const basic = basicAuthorization(this.#url)?.replace('Basic ', '') ?? '';
    const texts = [basic, ...[url, ...others].flatMap(secretsOfUrl)];
    this.#secrets = [...(token === undefined ? [] : [token]), ...texts.map((text) => new Secret(text))];
  }

  /** The header for a request to `url`; a token takes the place of its user and password. */
  authorization(url = this.#url): { readonly authorization?: string } {
    const authorization = this.#token === undefined ? basicAuthorization(url) : `Bearer ${this.#token.reveal()}`;
    return authorization === undefined ? {} : { authorization };
  }

  /** The message of a refusal, without the caller's secrets. */
  said(text: string): string {
    return errorBodyText(this.#secrets.reduce((shown, secret) => secret.hideIn(shown), text));
  }
}
