import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listening } from './http-server.js';

/** How a data source answers requests for one path. */
export interface SourceAnswer {
  /** Default 200. */
  status?: number;
  /** Content type; default `application/json`. */
  type?: string;
  /** The body as written. */
  text?: string;
  /** The answer waits for this. */
  after?: Promise<unknown>;
  /** In place of a whole answer: none at all; half of the announced body; bytes that trickle in and do not end. */
  fault?: 'silent' | 'truncated' | 'trickling';
}

/** An HTTP data source that a test steers. `await using` stops it. */
export interface DataSource extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`; every path is a document of its own, 404 until the test says otherwise. */
  readonly url: string;
  /** Answers requests for a path so from now on; a value is sent as JSON. */
  answer(path: string, answer: SourceAnswer): void;
  serve(path: string, value: unknown): void;
  /** Requests for the path that arrived so far; without a path, for any. */
  count(path?: string): number;
}

/** Time between two bytes of a trickling answer: shorter than any silence that a test allows. */
const TRICKLE_MS = 20;

/** Starts a {@link DataSource}. */
export async function startDataSource(): Promise<DataSource> {
  const answers = new Map<string, SourceAnswer>();
  const requests: string[] = [];
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? '/';
    requests.push(path);
    request.resume();
    const how = answers.get(path) ?? { status: 404, type: 'text/plain', text: 'there is no such document' };
    (how.after ?? Promise.resolve()).then(
      () => give(response, how),
      () => response.destroy(),
    );
  });
  return {
    ...(await listening(server)),
    answer: (path, how) => void answers.set(path, how),
    serve: (path, value) => void answers.set(path, { text: JSON.stringify(value) }),
    count: (path) => (path === undefined ? requests : requests.filter((other) => other === path)).length,
  };
}

function give(response: ServerResponse, how: SourceAnswer): void {
  const { status = 200, type = 'application/json', text = '', fault } = how;
  if (fault === 'silent') return;
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) });
  if (fault === undefined) response.end(text);
  else if (fault === 'truncated') {
    response.write(text.slice(0, text.length / 2), () => response.destroy());
  } else {
    const timer = setInterval(() => response.write(' '), TRICKLE_MS);
    response.once('close', () => clearInterval(timer));
  }
}
