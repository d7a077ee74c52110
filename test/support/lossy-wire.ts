import { once } from 'node:events';
import { createServer, request as forward, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocket, WebSocketServer } from 'ws';
import { PROTOCOL_HEADER } from '../../src/wire/frames.js';
import { listening } from './http-server.js';

/** Stands between clients and a server and loses what a test names, as no network does: a frame in the midst of others. */
export interface LossyWire extends AsyncDisposable {
  /** `http://127.0.0.1:<port>`. */
  readonly url: string;
  /** Requests that passed: method, path and query. */
  readonly requests: readonly string[];
  /** Which frames of the server do not reach clients from now on. */
  lose: (frame: unknown) => boolean;
  /** Frames that were lost so far. */
  readonly lost: readonly unknown[];
}

/** A wire to the server at `target` that loses nothing yet. */
export async function lossyWire(target: string): Promise<LossyWire> {
  const requests: string[] = [];
  const lost: unknown[] = [];
  const server = createServer((incoming, outgoing) => {
    const { method = 'GET', url: path = '/', headers } = incoming;
    requests.push(`${method} ${path}`);
    const onward = forward(target + path, { method, headers, agent: false }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy()); // the caller sees it
    incoming.pipe(onward);
  });
  const sockets = new WebSocketServer({ noServer: true });
  const ends = new Set<Duplex>();

  async function join(incoming: IncomingMessage, near: Duplex, head: Buffer): Promise<void> {
    const { [PROTOCOL_HEADER]: protocol, authorization } = incoming.headers;
    const headers = { ...(protocol && { [PROTOCOL_HEADER]: protocol }), ...(authorization && { authorization }) };
    const far = new WebSocket(target.replace(/^http/, 'ws') + incoming.url, { headers });
    const held: string[] = [];
    const hold = (data: unknown): void => void held.push(String(data));
    far.on('message', hold);
    far.on('error', () => near.destroy());
    const [[answer]] = (await Promise.all([once(far, 'upgrade'), once(far, 'open')])) as [[IncomingMessage], unknown];
    sockets.once('headers', (lines) => {
      const agreed = answer.headers[PROTOCOL_HEADER];
      if (agreed !== undefined) lines.push(`${PROTOCOL_HEADER}: ${agreed}`);
    });
    sockets.handleUpgrade(incoming, near, head, (client) => {
      const pass = (text: string): void => {
        const frame: unknown = JSON.parse(text);
        if (wire.lose(frame)) lost.push(frame);
        else client.send(text);
      };
      for (const text of held) pass(text);
      far.off('message', hold).on('message', (data) => pass(String(data)));
      client.on('message', (data) => far.send(String(data)));
      for (const [one, other] of [
        [client, far],
        [far, client],
      ] as const) {
        one.on('error', () => one.terminate()); // the other end is told by the close
        one.on('close', () => other.terminate());
      }
    });
  }

  server.on('upgrade', (incoming, near: Duplex, head) => {
    ends.add(near);
    near.on('error', () => near.destroy());
    near.on('close', () => ends.delete(near));
    join(incoming, near, head).catch(() => near.destroy()); // the client comes again
  });
  const listener = await listening(server);
  const wire: LossyWire = {
    url: listener.url,
    requests,
    lose: () => false,
    lost,
    [Symbol.asyncDispose]: async () => {
      for (const end of ends) end.destroy();
      await listener[Symbol.asyncDispose]();
    },
  };
  return wire;
}
