import { withoutTurns } from '../../src/fleet-rules/names-of-others.js';
import type { Query } from './router.js';

/** A request that failed, in words for people. */
export class ApiError extends Error {
  /** 0: there was no response. */
  readonly status: number;
  /** The stable code of the server (docs/reference/errors.md); undefined: the response has none. */
  readonly code: string | undefined;
  /** What to do now. */
  readonly remedy: string;

  constructor(
    message: string,
    { status, code, remedy }: { status: number; code?: string | undefined; remedy: string },
  ) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.remedy = remedy;
  }
}

/** The API of the server that serves the page, with the cookie of the session. */
export interface Api {
  /** Rejects with an {@link ApiError}, or with the reason of `signal`. */
  get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T>;
  /** The body of an answer as it was sent: numbers keep all of their digits. */
  getText(path: string, query?: Query, signal?: AbortSignal): Promise<string>;
  post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T>;
  delete(path: string): Promise<void>;
}

/** What of `fetch` the api needs. */
export type Fetch = (path: string, init: FetchOptions) => Promise<Response>;

interface FetchOptions {
  readonly method?: 'POST' | 'DELETE';
  readonly headers: Record<string, string>;
  readonly body?: string;
  readonly signal?: AbortSignal;
  readonly credentials?: 'same-origin';
  readonly cache?: 'no-store';
}

/** `onSignedOut` hears of each response that says that nobody is signed in any more. */
export function createApi(fetch: Fetch, onSignedOut: () => void): Api {
  async function send(path: string, init: FetchOptions, isSignIn = false): Promise<Response> {
    const response = await fetch(path, { ...init, credentials: 'same-origin', cache: 'no-store' }).catch(
      (error: unknown) => {
        if (init.signal?.aborted) throw error;
        throw new ApiError('The server does not answer.', {
          status: 0,
          remedy: 'Look whether it runs and can be reached from here; the page tries again with the stream.',
        });
      },
    );
    if (response.ok) return response;
    const failure = await errorOf(response);
    if (failure.status === 401 && failure.code === 'unauthorized' && !isSignIn) onSignedOut();
    throw failure;
  }
  return {
    async get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
      const response = await send(withQuery(path, query), { headers: HEADERS, ...(signal && { signal }) });
      return read(await response.text()) as T;
    },
    async getText(path: string, query: Query = {}, signal?: AbortSignal): Promise<string> {
      const response = await send(withQuery(path, query), { headers: HEADERS, ...(signal && { signal }) });
      return await response.text();
    },
    async post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
      const headers = { ...HEADERS, 'content-type': 'application/json' };
      const init = { method: 'POST' as const, headers, body: JSON.stringify(body), ...(signal && { signal }) };
      const response = await send(path, init, path === '/ui/session');
      return read(await response.text()) as T;
    },
    async delete(path: string): Promise<void> {
      await send(path, { method: 'DELETE', headers: HEADERS });
    },
  };
}

/**
 * The second says to the server that a script of this origin sends the request: no other page can.
 */
const HEADERS = { accept: 'application/json', 'x-sync-ui': '1' } as const;

function withQuery(path: string, query: Query): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  if (given.length === 0) return path;
  return `${path}?${new URLSearchParams(Object.fromEntries(given.map(([name, value]) => [name, String(value)])))}`;
}

/** What the server says. Whatever peers are called in it turns no other text on the page. */
function read(text: string): unknown {
  return JSON.parse(withoutTurns(text));
}

async function errorOf(response: Response): Promise<ApiError> {
  const { status } = response;
  const code = response.headers.get('x-sync-error') ?? undefined;
  const body: unknown = await response
    .text()
    .then(read)
    .catch(() => undefined);
  const message = detailOf(body) ?? `The server answers ${status}.`;
  return new ApiError(message, { status, code, remedy: remedyFor(status, code) });
}

function remedyFor(status: number, code: string | undefined): string {
  const known = code === undefined ? undefined : CODE_REMEDIES.get(code);
  return known ?? REMEDIES[status] ?? (status >= 500 ? SERVER_FAULT : ASK_AGAIN);
}

/** Where the code says more than the status. */
const CODE_REMEDIES: ReadonlyMap<string, string> = new Map([
  ['page_not_open', 'Reload the page: the server says how it can be opened from here.'],
  [
    'origin_refused',
    'A proxy before the server changes the host: have it pass on host and port as they were asked for.',
  ],
  ['too_many_watchers', 'Close pages of the fleet that nobody looks at.'],
]);
const SERVER_FAULT = 'Try again; if it stays, the log of the server has the reason.';
const ASK_AGAIN = 'Reload the page; if it stays, page and server may be of different versions.';
const REMEDIES: Readonly<Record<number, string>> = {
  401: 'Sign in with a token that permits it.',
  403: 'Sign in with a token that permits it: changes need one of the kind datasource.',
  404: 'Look whether it exists under another name; what is older than the log is not kept.',
  429: 'Wait a few seconds and try again.',
  503: 'The server starts, drains or cannot reach its backbone: wait a few seconds and try again.',
};

/** The `detail` of an error response: a sentence, or a list of fields with a message each. */
function detailOf(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || !('detail' in body)) return undefined;
  const { detail } = body;
  if (typeof detail === 'string') return detail;
  if (Array.isArray(detail)) return detail.map(fieldMessage).join('; ');
  if (typeof detail === 'object' && detail !== null && 'error' in detail) return String(detail.error);
  return undefined;
}

function fieldMessage(field: unknown): string {
  if (typeof field !== 'object' || field === null || !('msg' in field)) return String(field);
  const place = 'loc' in field && Array.isArray(field.loc) ? `${field.loc.join('.')}: ` : '';
  return `${place}${String(field.msg)}`;
}
