import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { field, parsed } from './http.js';
import { listening } from './http-server.js';

/** One request that a {@link CallbackReceiver} got, whole. */
export interface ReceivedCall {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The parsed body; undefined where it is not JSON. */
  readonly json: unknown;
}

/** What a receiver does with a request: answers a status, redirects, never answers, or cuts the connection. */
export type ReceiverAnswer = number | { redirect: string; status?: number } | 'silent' | 'cut';

/** An HTTP service that takes reports. `await using` stops it. */
export interface CallbackReceiver extends AsyncDisposable {
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** Requests in the order of their arrival. */
  readonly calls: readonly ReceivedCall[];
  /** Answers for a path, one request after the other; the last one stays. Default: 200. */
  answer(path: string, ...answers: ReceiverAnswer[]): void;
  /** Requests on a path. */
  at(path: string): ReceivedCall[];
  /** Reports on data updates on a path, by update id. */
  updates(path: string): unknown[];
}

/** Starts a {@link CallbackReceiver}. */
export async function startCallbackReceiver(): Promise<CallbackReceiver> {
  const calls: ReceivedCall[] = [];
  const answers = new Map<string, ReceiverAnswer[]>();
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    let text = '';
    request.setEncoding('utf8');
    request.on('data', (chunk: string) => {
      text += chunk;
    });
    request.on('end', () => {
      calls.push({ method: request.method ?? '', path, headers: request.headers, text, json: parsed(text) });
      const left = answers.get(path) ?? [];
      give(response, (left.length > 1 ? left.shift() : left[0]) ?? 200);
    });
  });
  const at = (path: string): ReceivedCall[] => calls.filter((call) => call.path === path);
  return {
    ...(await listening(server)),
    calls,
    answer: (path, ...given) => void answers.set(path, given),
    at,
    updates: (path) =>
      at(path)
        .map(({ json }) => field(json, 'update_id'))
        .filter((id) => id !== null),
  };
}

function give(response: ServerResponse, answer: ReceiverAnswer): void {
  if (answer === 'silent') return;
  if (answer === 'cut') response.destroy();
  else if (typeof answer === 'number') response.writeHead(answer).end('told');
  else response.writeHead(answer.status ?? 307, { location: answer.redirect }).end();
}
