import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from 'node:net';
import { WebSocket } from 'ws';
import { silentLogger } from '../../src/lib/observe/log.js';
import { createHub, type Hub } from '../../src/pubsub/hub.js';
import { SocketServer, type SocketServerDeps, type SocketServerOptions } from '../../src/pubsub/socket-server.js';
import { until as waitUntil } from '../support/until.js';

/** Real ends of sockets for the pub/sub tests. Each is disposed with `await using`. */

/** {@link waitUntil} with the time that is enough for anything here. */
export async function until(condition: () => boolean, what: string, withinMs = 20_000): Promise<void> {
  await waitUntil(condition, { withinMs, what });
}

/** A socket server of ours behind a real HTTP server on a free port. */
export interface TestServer extends AsyncDisposable {
  url: string;
  port: number;
  hub: Hub;
  sockets: SocketServer;
  http: Server;
}

/** Starts a server; `port` takes an earlier one again. */
export async function startSocketServer(
  options: Partial<SocketServerOptions> = {},
  deps: Partial<SocketServerDeps> = {},
  port = 0,
): Promise<TestServer> {
  const hub = createHub();
  const sockets = new SocketServer(
    { frameLimitBytes: 16 * 1024 * 1024, bufferLimitBytes: 1024 * 1024, refusalDelayMs: 0, ...options },
    { hub, log: silentLogger(), ...deps },
  );
  const http = createServer();
  http.on('upgrade', (request, socket, head) => sockets.handleUpgrade(request, socket, head));
  http.listen(port, '127.0.0.1');
  await once(http, 'listening');
  const address = http.address() as AddressInfo;
  return {
    url: `ws://127.0.0.1:${address.port}/ws`,
    port: address.port,
    hub,
    sockets,
    http,
    async [Symbol.asyncDispose]() {
      await sockets.close();
      http.close();
      http.closeAllConnections();
    },
  };
}

/** A peer that sends and sees raw text frames. */
export class RawPeer implements AsyncDisposable {
  readonly ws: WebSocket;
  readonly frames: string[] = [];
  /** `code reason` once it is closed. */
  closed: string | undefined;
  upgrade: IncomingMessage | undefined;
  #read = 0;

  private constructor(ws: WebSocket) {
    this.ws = ws;
    ws.on('message', (data: Buffer) => this.frames.push(data.toString()));
    ws.on('close', (code, reason) => {
      this.closed = `${code} ${reason}`;
    });
    ws.on('upgrade', (response) => {
      this.upgrade = response;
    });
    ws.on('error', () => undefined); // seen as `closed`
  }

  static async connect(url: string, headers: Record<string, string> = {}): Promise<RawPeer> {
    const peer = new RawPeer(new WebSocket(url, { headers, perMessageDeflate: false }));
    await once(peer.ws, 'open');
    return peer;
  }

  /** The next text frame. */
  async next(): Promise<string> {
    const at = this.#read++;
    await until(() => this.frames.length > at || this.closed !== undefined, 'a frame arrives');
    const frame = this.frames[at];
    assert.ok(frame !== undefined, `closed with ${this.closed}`);
    return frame;
  }

  /** Calls a method and gives the `response` part of the next frame. */
  async call(method: string, args: object = {}): Promise<unknown> {
    this.ws.send(JSON.stringify({ request: { method, arguments: args, call_id: 'c' }, response: null }));
    return JSON.parse(await this.next()).response;
  }

  /** Resolves when the server has read all that was sent before. */
  async ping(): Promise<void> {
    const pong = once(this.ws, 'pong');
    this.ws.ping();
    await pong;
  }

  async close(): Promise<string> {
    await until(() => this.closed !== undefined, 'the server closes the connection');
    return this.closed ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.closed !== undefined) return;
    this.ws.terminate();
    await this.close();
  }
}

/** A cable that can go dead: a TCP relay that stops passing anything on, without closing anything. */
export interface Cable extends AsyncDisposable {
  url: string;
  /** Stops the traffic in both directions. */
  freeze(): void;
}

export async function startCable(toPort: number): Promise<Cable> {
  const ends: Socket[] = [];
  let frozen = false;
  const relay = createTcpServer((near) => {
    const far = connect(toPort, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      ends.push(from);
      from.on('error', () => undefined); // an end that breaks shows at the other one
      from.on('data', (chunk) => {
        if (!frozen) to.write(chunk);
      });
      from.on('close', () => {
        if (!frozen) to.destroy();
      });
    }
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  return {
    url: `ws://127.0.0.1:${(relay.address() as AddressInfo).port}/ws`,
    freeze: () => {
      frozen = true;
    },
    async [Symbol.asyncDispose]() {
      for (const end of ends) end.destroy();
      relay.close();
      await once(relay, 'close');
    },
  };
}

/** A TCP connection after a WebSocket handshake, for bytes that no library would send. */
export async function rawSocket(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined); // the server's answer to nonsense
  socket.write(
    'GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n',
  );
  const [answer] = await once(socket, 'data');
  assert.match(String(answer), /^HTTP\/1\.1 101 /);
  return socket;
}

/** A masked client frame (mask 0); `finished` false for a first fragment. */
export function clientFrame(payload: string, finished = true, opcode = 1): Buffer {
  const body = Buffer.from(payload);
  assert.ok(body.length < 65_536);
  const head = body.length < 126 ? [body.length | 0x80] : [126 | 0x80, body.length >> 8, body.length & 0xff];
  return Buffer.concat([Buffer.from([(finished ? 0x80 : 0) | opcode, ...head, 0, 0, 0, 0]), body]);
}
