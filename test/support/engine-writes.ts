import { createServer, request as forward } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { listening } from './http-server.js';

/** One request that may change an engine. */
export interface EngineWrite {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly body: string;
}

/** Stands in front of an OPA and notes every request that is not a GET. `await using` ends it. */
export interface EngineWrites extends AsyncDisposable {
  readonly url: string;
  readonly all: readonly EngineWrite[];
  /** Those that are about anything but the client's marker, from one on: `PUT /v1/data/a`. */
  since(from: number): string[];
  /** Every request that fits is kept from the engine, and gets no answer; answers what lets it through after all. */
  keep(fits: (write: EngineWrite) => boolean): {
    readonly kept: readonly EngineWrite[];
    letThrough(): Promise<number[]>;
  };
}

const MARKER = '/system/policysync';

/** Starts {@link EngineWrites} in front of `engineUrl`. */
export async function engineWrites(engineUrl: string): Promise<EngineWrites> {
  const all: EngineWrite[] = [];
  let isKept: (write: EngineWrite) => boolean = () => false;
  let kept: EngineWrite[] = [];
  const proxy = createServer((incoming, outgoing) => {
    const { method = 'GET', url = '/', headers } = incoming;
    buffer(incoming).then(
      (bytes) => {
        const write = { method, url, body: bytes.toString() };
        if (method !== 'GET') {
          all.push(write);
          if (isKept(write)) {
            kept.push(write);
            return;
          }
        }
        const onward = forward(engineUrl + url, { method, headers }, (answer) => {
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(outgoing);
        });
        onward.on('error', () => outgoing.destroy());
        onward.end(bytes);
      },
      () => outgoing.destroy(),
    );
  });
  return {
    ...(await listening(proxy)),
    all,
    since: (from) =>
      all
        .slice(from)
        .filter((write) => !isOfMarker(write))
        .map(({ method, url }) => `${method} ${url}`),
    keep: (fits) => {
      isKept = fits;
      kept = [];
      const mine = kept;
      return {
        kept: mine,
        letThrough: async () => {
          isKept = () => false;
          const codes: number[] = [];
          for (const { method, url, body } of mine) {
            const headers = { 'content-type': 'application/json-patch+json' };
            codes.push((await fetch(engineUrl + url, { method, headers, body })).status);
          }
          return codes;
        },
      };
    },
  };
}

/** True for a write of the client's own marker, or of what lies above it. */
export function isOfMarker({ method, url, body }: EngineWrite): boolean {
  if (url.startsWith(`/v1/data${MARKER}`)) return true;
  if (method !== 'PATCH') return false;
  const ops = JSON.parse(body) as { path: string }[];
  return ops.every(({ path }) => path.startsWith(MARKER));
}
