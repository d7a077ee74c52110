import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Random } from './random.js';

/** What a source does in place of a good answer. */
export const SOURCE_FAULTS = [
  'error',
  'garbage',
  'truncated',
  'trailing',
  'silent',
  'trickling',
  'slow',
  'hangup',
] as const;
export type SourceFault = (typeof SOURCE_FAULTS)[number];

/** The data sources of a run: documents by path, and what goes wrong with them. */
export interface Sources extends AsyncDisposable {
  readonly url: string;
  /** Serves a document from now on; answers its URL. */
  serve(path: string, text: string): string;
  /** From now on so many of the paths (0 to 1) fail in this way. */
  fail(fault: SourceFault, share: number): void;
  heal(): void;
  readonly requests: number;
}

/** Longest wait before a good answer: answers do not come in the order of the questions. */
const LATENCY_MS = 60;
const SLOW_MS = 1500;

/** Paths below `/dead/` never answer. */
export async function startSources(draw: Random): Promise<Sources> {
  const documents = new Map<string, string>();
  let failing: { fault: SourceFault; share: number; salt: number } | undefined;
  let requests = 0;
  const faultOf = (path: string): SourceFault | undefined => {
    if (path.startsWith('/dead/')) return 'silent';
    if (failing === undefined) return undefined;
    const drawn = createHash('sha1').update(`${failing.salt}${path}`).digest()[0] ?? 0;
    return drawn < failing.share * 256 ? failing.fault : undefined;
  };
  const server = createServer((request, response) => {
    requests++;
    const path = request.url ?? '/';
    request.resume();
    response.on('error', () => undefined); // who asked has gone
    // The document of this moment, whenever it is sent: an old answer may arrive late.
    const text = documents.get(path);
    const fault = faultOf(path);
    const waitMs = fault === 'slow' ? SLOW_MS : draw.int(0, LATENCY_MS);
    setTimeout(() => answer(response, text, fault, request.headers['if-none-match']), waitMs);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    serve: (path, text) => {
      documents.set(path, text);
      return url + path;
    },
    fail: (fault, share) => {
      failing = { fault, share, salt: draw.int(0, 1_000_000) };
    },
    heal: () => {
      failing = undefined;
    },
    get requests() {
      return requests;
    },
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function answer(
  response: ServerResponse,
  text: string | undefined,
  fault: SourceFault | undefined,
  known: string | undefined,
): void {
  const json = { 'content-type': 'application/json' };
  switch (fault) {
    case 'silent':
      return;
    case 'hangup':
      response.destroy();
      return;
    case 'error':
      response.writeHead(500).end('{"error":"out of order"}');
      return;
    case 'garbage':
      response.writeHead(200, json).end('{"n": 1, "garb');
      return;
    case 'truncated':
      response.writeHead(200, { ...json, 'content-length': (text?.length ?? 0) + 50 });
      response.write(text ?? '{', () => response.destroy());
      return;
    case 'trailing':
      response.writeHead(200, json).end(`${text ?? '{}'} and more`);
      return;
    case 'trickling': {
      response.writeHead(200, { ...json, 'content-length': 100_000 });
      const timer = setInterval(() => response.write(' '), 50);
      response.on('close', () => clearInterval(timer));
      return;
    }
  }
  if (text === undefined) {
    response.writeHead(404).end('{}');
    return;
  }
  const etag = `"${createHash('sha1').update(text).digest('hex')}"`;
  if (known === etag) response.writeHead(304, { etag }).end();
  else response.writeHead(200, { ...json, etag, 'content-length': Buffer.byteLength(text) }).end(text);
}
