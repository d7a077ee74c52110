import { createServer, request as forward, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { listening } from './http-server.js';

/** One exchange that passed a {@link Recorder}. */
export interface Recorded {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly status: number;
}

/** Stands in front of an HTTP server and notes what was asked and how it was answered. `await using` removes it. */
export interface Recorder extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** Finished exchanges, in order. Sockets pass and are not noted. */
  readonly seen: readonly Recorded[];
  /** Ends all sockets, as a broken network does. New ones are taken. */
  dropSockets(): void;
}

/** A recorder in front of the server at `target`. */
export async function recorder(target: string): Promise<Recorder> {
  const { hostname, port } = new URL(target);
  const seen: Recorded[] = [];
  const sockets = new Set<Duplex>();
  const server = createServer((incoming, outgoing) => {
    const { method = 'GET', url: path = '/', headers } = incoming;
    const onward = forward(target + path, { method, headers }, (answer) => {
      const status = answer.statusCode ?? 0;
      outgoing.writeHead(status, answer.headers);
      answer.pipe(outgoing);
      answer.on('end', () => seen.push({ method, path, status }));
    });
    onward.on('error', () => outgoing.destroy()); // the caller sees it
    incoming.pipe(onward);
  });
  server.on('upgrade', (incoming: IncomingMessage, near: Duplex, head: Buffer) => {
    const far = connect(Number(port), hostname);
    const { method, url: path, rawHeaders } = incoming;
    const lines = rawHeaders.flatMap((text, at) => (at % 2 === 0 ? [`${text}: ${rawHeaders[at + 1]}`] : []));
    far.write(`${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
    far.write(head);
    join(near, far);
    sockets.add(near);
    near.on('close', () => sockets.delete(near));
  });
  const listener = await listening(server);
  const dropSockets = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: listener.url,
    seen,
    dropSockets,
    [Symbol.asyncDispose]: async () => {
      dropSockets();
      await listener[Symbol.asyncDispose]();
    },
  };
}

function join(near: Duplex, far: Socket): void {
  for (const [from, to] of [
    [near, far],
    [far, near],
  ] as const) {
    from.pipe(to);
    from.on('error', () => from.destroy()); // broken connections are what this is for
    from.on('close', () => to.destroy());
  }
}
