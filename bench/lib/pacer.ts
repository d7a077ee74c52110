import { Client } from 'undici';
import { pause } from './wait.js';

/** Asks one question again and again, at a pace, whether the answer is quick or slow. */
export interface Pacer extends AsyncDisposable {
  /** Asks while `during` runs, and returns the ms of each answer. */
  asks(during: () => Promise<void>): Promise<number[]>;
}

/** Questions under way at most; further ones are left out, so that an engine that stands still is not buried. */
const MAX_IN_FLIGHT = 16;

/** Asks `POST <engine>/v1/data/<path>` every so many ms. */
export function pacer(
  engineUrl: string,
  { path, input, everyMs }: { path: string; input: object; everyMs: number },
): Pacer {
  const client = new Client(engineUrl, { pipelining: MAX_IN_FLIGHT, bodyTimeout: 60_000, headersTimeout: 60_000 });
  const request = {
    method: 'POST',
    path: `/v1/data/${path}`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ input }),
  } as const;

  async function ask(): Promise<number> {
    const startMs = performance.now();
    const { statusCode, body } = await client.request(request);
    const text = await body.text();
    if (statusCode !== 200 || !text.includes('"result"')) throw new Error(`${path} is answered ${statusCode}: ${text}`);
    return performance.now() - startMs;
  }

  return {
    asks: async (during) => {
      const samples: number[] = [];
      const asked = new Set<Promise<void>>();
      let failure: unknown;
      let isOver = false;
      const asking = (async () => {
        while (!isOver && failure === undefined) {
          if (asked.size < MAX_IN_FLIGHT) {
            const one = ask().then(
              (tookMs) => void samples.push(tookMs),
              (error: unknown) => {
                failure = error;
              },
            );
            asked.add(one);
            void one.finally(() => asked.delete(one));
          }
          await pause(everyMs);
        }
      })();
      try {
        await during();
      } finally {
        isOver = true;
        await asking;
        await Promise.all(asked);
      }
      if (failure !== undefined) throw failure;
      return samples;
    },
    [Symbol.asyncDispose]: () => client.destroy(),
  };
}
