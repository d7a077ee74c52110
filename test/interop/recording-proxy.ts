import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';

/** One request that passed, upgrades to the socket too. */
export interface PassedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly authorization: string | undefined;
  /** The body as text; of an upgrade none. */
  readonly body: string;
  /** Undefined until it is answered. */
  readonly status: number | undefined;
  /** How long the server took to answer; 0 until then. */
  readonly answeredAfterMs: number;
}

/** A proxy between a client and a server that keeps what passes, and can cut the two apart. `await using` ends it. */
export interface RecordingProxy extends AsyncDisposable {
  /** Where the client finds the server: `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** In the order of their arrival. */
  readonly requests: readonly PassedRequest[];
  /** The requests with this method whose path, without the query, is this. */
  at(method: string, path: string): PassedRequest[];
  /** Ends all connections; new ones are ended at once, until {@link RecordingProxy.leadTo}. */
  cut(): void;
  /** Lets connections through to the server at `url` from now on. */
  leadTo(url: string): void;
}

/** Starts a proxy to the server at `url`. */
export async function recordingProxy(url: string): Promise<RecordingProxy> {
  let target: URL | undefined = new URL(url);
  const requests: PassedRequest[] = [];
  const sockets = new Set<Duplex>();

  /** Keeps a request; the result tells it the status of the answer. */
  const keep = (incoming: IncomingMessage): { body(text: string): void; answered(status: number): void } => {
    const { method = '', url: path = '', headers } = incoming;
    const arrivedMs = performance.now();
    const index = requests.length;
    const change = (more: Partial<PassedRequest>): void => {
      const before = requests[index];
      if (before !== undefined) requests[index] = { ...before, ...more };
    };
    const { authorization } = headers;
    requests.push({ method, path, authorization, body: '', status: undefined, answeredAfterMs: 0 });
    return {
      body: (body) => change({ body }),
      answered: (status) => change({ status, answeredAfterMs: performance.now() - arrivedMs }),
    };
  };

  const pass = (incoming: IncomingMessage, response: ServerResponse): void => {
    const kept = keep(incoming);
    const { method, headers } = incoming;
    const outgoing = request(
      new URL(incoming.url ?? '/', target ?? url),
      { method, headers, agent: false },
      (answer) => {
        kept.answered(answer.statusCode ?? 0);
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      },
    );
    outgoing.on('error', () => response.destroy()); // the client sees a lost connection, as it would without us
    response.on('close', () => outgoing.destroy());
    let body = '';
    incoming.setEncoding('utf8').on('data', (text: string) => {
      body += text;
    });
    incoming.on('end', () => {
      kept.body(body);
      outgoing.end(body);
    });
  };

  const passUpgrade = (incoming: IncomingMessage, near: Socket, head: Buffer): void => {
    const kept = keep(incoming);
    const to = target ?? new URL(url);
    const far = connect(Number(to.port), to.hostname);
    sockets.add(far);
    const lines = [`${incoming.method} ${incoming.url} HTTP/1.1`];
    for (let index = 0; index < incoming.rawHeaders.length; index += 2) {
      lines.push(`${incoming.rawHeaders[index]}: ${incoming.rawHeaders[index + 1]}`);
    }
    far.write(`${lines.join('\r\n')}\r\n\r\n`);
    far.write(head);
    far.once('data', (first) => kept.answered(Number(/^HTTP\/1\.1 (\d+)/.exec(first.toString('latin1'))?.[1] ?? 0)));
    for (const [from, other] of [
      [near, far],
      [far, near],
    ] as const) {
      from.pipe(other);
      from.on('error', () => from.destroy()); // the other end is told by the close
      from.on('close', () => other.destroy());
    }
    far.on('close', () => sockets.delete(far));
  };

  const server = createServer(pass);
  server.on('upgrade', passUpgrade);
  server.on('connection', (socket) => {
    if (target === undefined) {
      socket.destroy();
      return;
    }
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    target = undefined;
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    at: (method, path) => requests.filter((passed) => passed.method === method && passed.path.split('?')[0] === path),
    cut,
    leadTo: (other) => {
      target = new URL(other);
    },
    [Symbol.asyncDispose]: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
