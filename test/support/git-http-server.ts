import { spawn } from 'node:child_process';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listening } from './http-server.js';

/** A smart-HTTP git server. `await using` stops it. */
export interface GitHttpServer extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`; a repository is its folder name below `root`. */
  readonly url: string;
  /** While true, requests are taken and never answered. */
  hang: boolean;
  /** A request for which it gives a promise waits for that; `count` is how many have arrived, this one included. */
  hold: ((count: number) => Promise<void> | undefined) | undefined;
  /** Where a request is redirected to, before anything else is asked. */
  lead: ((request: IncomingMessage) => string | undefined) | undefined;
  /** Requests that were let in. */
  readonly requests: readonly string[];
  /** The `Authorization` of each, where it had one. */
  readonly authorizations: readonly string[];
}

/** Serves the repositories below a folder with git's own CGI program; `auth` asks for basic authentication. */
export async function gitHttpServer(
  root: string,
  auth?: { user: string; password: string },
  port = 0,
): Promise<GitHttpServer> {
  const requests: string[] = [];
  const authorizations: string[] = [];
  const expected = auth && `Basic ${Buffer.from(`${auth.user}:${auth.password}`).toString('base64')}`;
  const server = createServer((request, response) => {
    if (request.headers.authorization !== undefined) authorizations.push(request.headers.authorization);
    const location = state.lead?.(request);
    if (location !== undefined) {
      response.writeHead(302, { location }).end();
      return;
    }
    if (expected !== undefined && request.headers.authorization !== expected) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      return;
    }
    requests.push(`${request.method} ${request.url}`);
    if (state.hang) return;
    const held = state.hold?.(requests.length);
    if (held === undefined) runBackend(root, request, response);
    else void held.then(() => runBackend(root, request, response));
  });
  const state: GitHttpServer = {
    ...(await listening(server, port)),
    hang: false,
    hold: undefined,
    lead: undefined,
    requests,
    authorizations,
  };
  return state;
}

/** One request through `git http-backend` (RFC 3875: headers, an empty line, the body). */
function runBackend(root: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url ?? '/', 'http://localhost');
  const backend = spawn('git', ['http-backend'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: {
      PATH: process.env.PATH ?? '',
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: decodeURIComponent(pathname),
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: request.method ?? 'GET',
      CONTENT_TYPE: request.headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: String(request.headers['content-encoding'] ?? ''),
      HTTP_GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
      REMOTE_ADDR: '127.0.0.1',
    },
  });
  backend.stdin.on('error', () => undefined); // it may answer without reading all
  request.pipe(backend.stdin);
  let head = Buffer.alloc(0);
  let inBody = false;
  backend.stdout.on('data', (chunk: Buffer) => {
    if (inBody) {
      response.write(chunk);
      return;
    }
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    inBody = true;
    for (const line of head.toString('latin1', 0, end).split('\r\n')) {
      const colon = line.indexOf(':');
      const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
      if (name.toLowerCase() === 'status') response.statusCode = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.write(head.subarray(end + 4));
  });
  backend.on('close', () => response.end());
}
