import { createServer, request as httpRequest } from 'node:http';
import { connect, type Socket } from 'node:net';
import { listening } from './http-server.js';

/** An HTTP proxy of a test: tunnels (CONNECT) and forwards plain requests; every name leads to 127.0.0.1. */
export interface TestProxy extends AsyncDisposable {
  /** `http://ann:secret-word@127.0.0.1:<port>`: it wants these credentials. */
  readonly url: string;
  /** What it was asked, in order: `CONNECT host:port`, `GET http://host:port/path`. */
  readonly requests: readonly string[];
}

/** The password in {@link TestProxy.url}: tests look for it where it must not be. */
export const PROXY_PASSWORD = 'secret-word';

/** Starts a {@link TestProxy}. */
export async function startProxy(): Promise<TestProxy> {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const due = `Basic ${Buffer.from(`ann:${PROXY_PASSWORD}`).toString('base64')}`;
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    if (request.headers['proxy-authorization'] !== due) {
      response.writeHead(407).end();
      return;
    }
    const target = new URL(request.url ?? '');
    const { 'proxy-authorization': _, ...headers } = request.headers;
    const far = httpRequest(
      { host: '127.0.0.1', port: target.port, method: request.method, path: target.pathname + target.search, headers },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    far.on('error', () => response.destroy());
    request.pipe(far);
  });
  server.on('connect', (request, near: Socket, head: Buffer) => {
    requests.push(`CONNECT ${request.url}`);
    near.on('error', () => near.destroy()); // tests end connections on either side
    if (request.headers['proxy-authorization'] !== due) {
      near.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
      return;
    }
    const far = connect(Number(/:(\d+)$/.exec(request.url ?? '')?.[1]), '127.0.0.1', () => {
      near.write('HTTP/1.1 200 Connection established\r\n\r\n');
      far.write(head);
      far.pipe(near).pipe(far);
    });
    far.on('error', () => near.destroy());
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
    }
    near.once('close', () => far.destroy());
  });
  const listener = await listening(server);
  return {
    url: `http://ann:${PROXY_PASSWORD}@127.0.0.1:${listener.port}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await listener[Symbol.asyncDispose]();
    },
  };
}
