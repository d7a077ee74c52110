import http from 'node:http';
import { patience } from './until.js';

/** One answer, read whole. */
export interface Answer {
  status: number;
  headers: Headers;
  text: string;
  /** The parsed body; undefined where it is not JSON. */
  json: unknown;
}

/** Longest wait for an answer in a test, on a machine without other work. */
const TIMEOUT_MS = 10_000;

/**
 * Sends a request and reads the answer, of a stream of events the first part; never follows a redirect. As `fetch` does, which takes
 * three times the work for it: there are many thousands, most of them of a test that waits.
 */
export function request(url: string, init: RequestInit = {}): Promise<Answer> {
  const { method = 'GET', body, signal } = init;
  const headers = new Headers(init.headers);
  // Another body, a coded answer, a certificate: what `fetch` knows more of.
  const isPlain = body === undefined || typeof body === 'string' || body instanceof Uint8Array;
  if (!isPlain || !url.startsWith('http:') || headers.has('accept-encoding')) return fetched(url, init);
  if (typeof body === 'string' && !headers.has('content-type')) headers.set('content-type', 'text/plain;charset=UTF-8');
  if (body !== undefined) headers.set('content-length', String(Buffer.byteLength(body)));
  return new Promise((resolve, reject) => {
    const failed = (cause: unknown): void => {
      reject(signal?.aborted ? signal.reason : new TypeError('fetch failed', { cause }));
    };
    const sent = http.request(url, { method, headers: Object.fromEntries(headers), ...(signal ? { signal } : {}) });
    const late = signal ? undefined : setTimeout(() => sent.destroy(new Error(`no answer: ${url}`)), timeoutMs());
    sent.once('close', () => clearTimeout(late)).on('error', failed);
    sent.once('response', (response) => {
      const parts: Uint8Array[] = [];
      const answer = (): void => {
        const text = new TextDecoder().decode(Buffer.concat(parts));
        const pairs = Object.entries(response.headersDistinct).flatMap(([name, values = []]) =>
          values.map((value): [string, string] => [name, value]),
        );
        const { statusCode: status = 0 } = response;
        resolve({ status, headers: new Headers(pairs), text, json: parsed(text) });
      };
      const isStream = response.headers['content-type'] === 'text/event-stream';
      response.on('error', failed).on('end', answer);
      response.on('data', (part: Uint8Array) => {
        parts.push(part);
        if (!isStream) return;
        answer();
        sent.destroy();
      });
    });
    sent.end(body);
  });
}

function timeoutMs(): number {
  return TIMEOUT_MS * patience();
}

async function fetched(url: string, init: RequestInit): Promise<Answer> {
  const signal = AbortSignal.timeout(timeoutMs());
  const response = await fetch(url, { redirect: 'manual', signal, ...init });
  const isStream = response.headers.get('content-type') === 'text/event-stream';
  const text = isStream ? await firstPart(response) : await response.text();
  return { status: response.status, headers: response.headers, text, json: parsed(text) };
}

async function firstPart({ body }: Response): Promise<string> {
  const reader = body?.getReader();
  const part = await reader?.read();
  await reader?.cancel();
  return new TextDecoder().decode(part?.value);
}

/** POSTs a body as JSON; a string is sent as it is. */
export function postJson(
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
  timeoutMs?: number,
): Promise<Answer> {
  return request(url, {
    ...(timeoutMs !== undefined && { signal: AbortSignal.timeout(timeoutMs) }),
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** The value of a JSON text; undefined where it is not JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // documented above
  }
}

/** The value at a place inside a parsed answer, `field(json, 'detail', 0, 'loc')`; undefined where there is none. */
export function field(value: unknown, ...place: (string | number)[]): unknown {
  return place.reduce<unknown>(
    (at, key) => (typeof at === 'object' && at !== null ? (at as Record<string | number, unknown>)[key] : undefined),
    value,
  );
}
