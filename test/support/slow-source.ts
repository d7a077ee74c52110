import { createServer, type ServerResponse } from 'node:http';
import { listening } from './http-server.js';
import { until } from './until.js';

/** A data source whose answers a test sends piece by piece. `await using` stops it. */
export interface SlowSource extends AsyncDisposable {
  readonly url: string;
  /** Requests so far. */
  readonly count: number;
  /** Waits for the next request, or takes one that waits already; its answer is the caller's to send. */
  next(): Promise<SlowAnswer>;
}

/** One answer of a {@link SlowSource}: 200, with no length announced. */
export interface SlowAnswer {
  send(text: string): void;
  end(text: string): void;
  /** Breaks the connection off. */
  tear(): void;
}

/** Starts a {@link SlowSource}. */
export async function startSlowSource(): Promise<SlowSource> {
  const waiting: ServerResponse[] = [];
  let count = 0;
  const server = createServer((_request, response) => {
    count++;
    waiting.push(response);
  });
  return {
    ...(await listening(server)),
    get count() {
      return count;
    },
    async next() {
      const response = await until(() => waiting.shift(), { withinMs: 20_000, what: 'the source is asked' });
      response.writeHead(200, { 'content-type': 'application/json' });
      return {
        send: (text) => void response.write(text),
        end: (text) => void response.end(text),
        tear: () => void response.destroy(),
      };
    },
  };
}
