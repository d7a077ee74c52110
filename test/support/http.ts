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

/** Sends a request and reads the answer, of a stream of events the first part; never follows a redirect. */
export async function request(url: string, init: RequestInit = {}): Promise<Answer> {
  const signal = AbortSignal.timeout(TIMEOUT_MS * patience());
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
