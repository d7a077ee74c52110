import { type HeaderValues, headerText } from './http-headers.js';

/** A request that may be redirected. Names of headers are in lower case. */
interface Request {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** What {@link followRedirects} reads of a response. */
interface Response {
  readonly status: number;
  readonly headers: HeaderValues;
}

/** How redirects are followed. */
export interface RedirectRules<Q extends Request, R extends Response> {
  readonly max: number;
  /** Sends one request; the body of a redirect is dropped here. */
  readonly send: (request: Q, redirects: number) => Promise<R>;
  /** The request to the new place. Decides which credentials travel (see {@link redirectedHeaders}); throws for a forbidden place. */
  readonly next: (request: Q, to: URL, response: R) => Q | Promise<Q>;
  /** The error for a redirect that leads nowhere, or for one too many. */
  readonly fail: (request: Q, why: string, response: R) => Error;
}

/** Sends a request and follows redirects (RFC 9110 section 15.4) to the first response that is none. */
export async function followRedirects<Q extends Request, R extends Response>(
  first: Q,
  { max, send, next, fail }: RedirectRules<Q, R>,
): Promise<{ request: Q; response: R; redirects: number }> {
  let request = first;
  for (let redirects = 0; ; redirects++) {
    const response = await send(request, redirects);
    const { status, headers } = response;
    if (!isRedirect(status)) return { request, response, redirects };
    if (redirects === max) throw fail(request, `more than ${max} redirects`, response);
    const to = headerText(headers.location) ?? '';
    if (to === '') throw fail(request, `answered ${status} without saying where to go`, response);
    if (!URL.canParse(to, request.url.href)) throw fail(request, `answered ${status} to what is not a URL`, response);
    const url = new URL(to, request.url);
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw fail(request, `answered ${status} to ${url.protocol.slice(0, -1)}: only http and https are read`, response);
    }
    request = await next(request, url, response);
  }
}

/** True for the statuses that name another place for the document. */
export function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 303 || status === 307 || status === 308;
}

/**
 * The headers of a redirected request. Another origin gets `ownHeaders` and the type of the body: every other header was configured
 * for the first origin and may be a credential.
 */
export function redirectedHeaders(
  { url, headers }: Request,
  to: URL,
  ownHeaders: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  if (to.origin === url.origin) return headers;
  const type = headers['content-type'];
  return type === undefined ? ownHeaders : { ...ownHeaders, 'content-type': type };
}
