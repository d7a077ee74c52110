import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type WebSocket, WebSocketServer } from 'ws';
import { socketDial } from '../../src/lib/net/connect.js';
import { readProxies } from '../../src/lib/net/proxy.js';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { FAREWELL_CODES } from '../../src/pubsub/close-reason.js';
import {
  createSocketClient,
  type SocketClientDeps,
  type SocketClientOptions,
  type SocketSession,
} from '../../src/pubsub/socket-client.js';
import { PROTOCOL_VERSION } from '../../src/wire/frames.js';
import { startCable, startSocketServer, until } from './pubsub-peers.js';

/** The client's side of the socket: against our server, and against a server that plays what a test needs. */

let stop = new AbortController();
let running: Promise<void> | undefined;
/** What a client did, as lines. */
interface Seen {
  lines: string[];
  sessions: SocketSession[];
}

function startClient(
  url: string,
  options: Partial<SocketClientOptions> = {},
  deps: Partial<SocketClientDeps> = {},
): Seen {
  const seen: Seen = { lines: [], sessions: [] };
  const client = createSocketClient(
    { url, keepAliveIntervalMs: 0, reconnectMaxMs: 50, ...options },
    {
      log: silentLogger(),
      topics: () => ['a', 'b', 'a'],
      onConnected: async (session) => {
        seen.sessions.push(session);
        seen.lines.push('connected');
      },
      onNotify: (topic, dataText) => seen.lines.push(`${topic} ${dataText}`),
      onDisconnected: (reason) => seen.lines.push(`disconnected: ${reason}`),
      ...deps,
    },
  );
  running = client.run(stop.signal);
  return seen;
}

/** A server that only does what the test says: every frame of a peer goes to `onFrame`. */
interface PlayedServer extends AsyncDisposable {
  url: string;
  peers: WebSocket[];
  frames: string[];
  headers: (string | undefined)[];
}

type Play = (ws: WebSocket, frame: { method: string; id: string; text: string }) => void;

const reply = (ws: WebSocket, id: string, result: unknown): void => {
  ws.send(
    `{"request": null, "response": {"result": ${JSON.stringify(result)}, "result_type": "x", "call_id": "${id}"}}`,
  );
};

/** What a Python OPAL server does: readiness and subscribe. */
const likeOpal: Play = (ws, { method, id }) => {
  if (method === '_ping_') reply(ws, id, 'pong');
  if (method === 'subscribe') reply(ws, id, true);
};

async function playServer(play: Play, isOurs = false): Promise<PlayedServer> {
  const wss = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: true });
  await once(wss, 'listening');
  if (isOurs) wss.on('headers', (headers) => void headers.push(`x-sync-protocol: ${PROTOCOL_VERSION}`));
  const server: PlayedServer = {
    url: `ws://127.0.0.1:${(wss.address() as AddressInfo).port}/ws`,
    peers: [],
    frames: [],
    headers: [],
    async [Symbol.asyncDispose]() {
      for (const ws of server.peers) ws.terminate();
      wss.close();
      await once(wss, 'close');
    },
  };
  wss.on('connection', (ws, request) => {
    server.peers.push(ws);
    server.headers.push(request.headers.authorization, request.headers['sec-websocket-extensions']);
    ws.on('message', (data: Buffer) => {
      const text = data.toString();
      server.frames.push(text);
      const { request: call } = JSON.parse(text);
      play(ws, { method: call?.method ?? '', id: call?.call_id ?? '', text });
    });
  });
  return server;
}

describe('the socket client', () => {
  beforeEach(() => {
    stop = new AbortController();
    running = undefined;
  });
  afterEach(async () => {
    stop.abort(new Error('the test is over'));
    await running;
  });

  test('subscribes, connects, gets publications with their numbers as written', async () => {
    await using server = await startSocketServer();
    const seen = startClient(server.url);
    await until(() => seen.lines.includes('connected'), 'it is connected');
    assert.equal(seen.sessions[0]?.protocol, PROTOCOL_VERSION);
    server.hub.publish({
      topics: ['b'],
      text: '{"n": 12345678901234567890, "d":1.0}',
      extendedText: '{"n": 12345678901234567890, "d":1.0, "seq":1}',
    });
    await until(() => seen.lines.length === 2, 'the publication arrives');
    assert.deepEqual(seen.lines, ['connected', 'b {"n": 12345678901234567890, "d":1.0, "seq":1}']);
    stop.abort();
    await running;
    assert.deepEqual(seen.lines.slice(2), [`disconnected: connection to ${server.url} lost: closed from our side`]);
    assert.equal(seen.sessions[0]?.signal.aborted, true);
    await until(() => server.sockets.connectionCount === 0, 'nothing is left on the server');
  });

  test('towards an OPAL server: the worked session, frame by frame', async () => {
    await using server = await playServer(likeOpal);
    const seen = startClient(server.url, { token: new Secret('eyJ') });
    await until(() => seen.lines.includes('connected'), 'it is connected');
    assert.equal(seen.sessions[0]?.protocol, undefined);
    assert.deepEqual(server.headers, ['Bearer eyJ', undefined], 'a token, and no compression offered');
    assert.match(
      server.frames[0] ?? '',
      /^\{"request":\{"method":"_ping_","arguments":\{\},"call_id":"[0-9a-f]{32}"\},"response":null\}$/,
    );
    assert.match(
      server.frames[1] ?? '',
      /^\{"request":\{"method":"subscribe","arguments":\{"topics":\["a","b"\]\},"call_id":"[0-9a-f]{32}"\},"response":null\}$/,
    );
    const [ws] = server.peers;
    ws?.send('{"request": {"method": "_get_channel_id_", "arguments": {}, "call_id": "1"}, "response": null}');
    ws?.send('{"request": {"method": "_ping_", "arguments": {}, "call_id": "2"}, "response": null}');
    ws?.send(
      '{"request": {"method": "notify", "arguments": {"subscription": {"id": "x", "subscriber_id": "y", "topic": "a", "notifier_id": null}, "data": {"id": null, "entries": []}}, "call_id": "c4a3081671aa40bda9043a98c6a18f6c"}, "response": null}',
    );
    await until(() => server.frames.length === 5, 'three answers');
    assert.match(
      server.frames[2] ?? '',
      /^\{"request":null,"response":\{"result":"[0-9a-f]{32}","result_type":"str","call_id":"1"\}\}$/,
    );
    assert.equal(server.frames[3], '{"request":null,"response":{"result":"pong","result_type":"str","call_id":"2"}}');
    assert.equal(
      server.frames[4],
      '{"request":null,"response":{"result":"None","result_type":"str","call_id":"c4a3081671aa40bda9043a98c6a18f6c"}}',
    );
    assert.deepEqual(seen.lines, ['connected', 'a {"id": null, "entries": []}']);
  });

  test('frames that are no use are ignored: other shapes, unknown answers, unknown methods, a notify without topic', async () => {
    await using server = await playServer(likeOpal);
    const seen = startClient(server.url);
    await until(() => seen.lines.includes('connected'), 'it is connected');
    for (const text of [
      '[]',
      '{"request":5}',
      '{}',
      '{"request":null,"response":{"result":1,"call_id":"unknown"}}',
      '{"request":{"method":"notify","arguments":{"data":1},"call_id":"n"}}',
      '{"request":{"method":"unheard_of","arguments":{},"call_id":"u"}}',
    ]) {
      server.peers[0]?.send(text);
    }
    await until(() => server.frames.some((text) => text.includes('"u"')), 'the last one is answered');
    assert.equal(server.frames.at(-1), '{"request":null,"response":{"result":null,"result_type":null,"call_id":"u"}}');
    assert.deepEqual(seen.lines, ['connected']);
  });

  test('a lost connection comes back, also when the server was away', async () => {
    const first = await startSocketServer();
    const seen = startClient(first.url);
    await until(() => seen.lines.length === 1, 'it is connected');
    await first[Symbol.asyncDispose]();
    await until(() => seen.lines.length === 2, 'it is told');
    assert.match(seen.lines[1] ?? '', /^disconnected: .*closed with 1012 the server is stopping/);
    await using second = await startSocketServer({}, {}, first.port);
    await until(() => seen.lines.length === 3, 'it is connected again');
    second.hub.publish({ topics: ['a'], text: '2' });
    await until(() => seen.lines.includes('a 2'), 'publications arrive');
  });

  test('a server that drains is left at once, without a failure, and the next one is waited for as in a restart', async () => {
    const first = await startSocketServer();
    const failures: string[] = [];
    const seen = startClient(
      first.url,
      { reconnectMaxMs: 30_000 },
      {
        onDisconnected: (reason, sentAway) => seen.lines.push(`${sentAway ? 'sent away' : 'lost'}: ${reason}`),
        onFailed: (reason) => failures.push(reason),
      },
    );
    await until(() => seen.lines.length === 1, 'it is connected');
    const { port } = first;
    // The listener closes with the server; another one takes its place at once, as behind a load balancer.
    await first.sockets.sendAway(0, new AbortController().signal);
    await until(() => seen.lines.length === 2, 'it is told');
    assert.match(seen.lines[1] ?? '', /^sent away: .*closed with 1001 this server drains/);
    await until(() => failures.length === 1, 'it asked at once, and the server refuses newcomers');
    assert.match(failures[0] ?? '', /503/);
    await first[Symbol.asyncDispose]();
    await using _second = await startSocketServer({}, {}, port);
    await until(() => seen.lines.length === 3, 'it is connected again');
  });

  test('a server behind a dead cable is found by pings', async () => {
    await using server = await startSocketServer();
    await using cable = await startCable(server.port);
    const seen = startClient(cable.url, { pingIntervalMs: 60, openTimeoutMs: 200 });
    await until(() => seen.lines.length === 1, 'it is connected');
    cable.freeze();
    await until(() => seen.lines.length === 2, 'it notices');
    assert.match(seen.lines[1] ?? '', /does not answer pings/);
  });

  test('keep-alive sends RPC pings', async () => {
    await using server = await playServer(likeOpal);
    startClient(server.url, { keepAliveIntervalMs: 20 });
    await until(() => server.frames.filter((text) => text.includes('"_ping_"')).length >= 4, 'pings go on');
    assert.equal(server.peers.length, 1);
  });

  test('an onConnected that rejects ends the connection and counts as a failed attempt', async () => {
    await using server = await startSocketServer();
    let calls = 0;
    const seen = startClient(
      server.url,
      {},
      {
        onConnected: async () => {
          calls++;
          if (calls < 3) throw new Error('GET /data/config failed');
        },
      },
    );
    await until(() => calls === 3 && server.sockets.connectionCount === 1, 'the third one holds');
    assert.deepEqual(seen.lines.length, 2, 'two ends');
  });

  test('a subscription that is refused is tried again', async () => {
    let subscribes = 0;
    await using server = await playServer((ws, call) => {
      if (call.method === 'subscribe' && ++subscribes === 1) reply(ws, call.id, false);
      else likeOpal(ws, call);
    });
    const seen = startClient(server.url);
    await until(() => seen.lines.length > 0, 'it is connected');
    assert.deepEqual([seen.lines, subscribes], [['connected'], 2]);
  });

  test('a client that ends says how to a server of ours; one that disconnects, and one of an OPAL server, does not', async () => {
    for (const [farewell, isOurs, wanted] of [
      ['goodbye', true, FAREWELL_CODES.goodbye],
      ['leaves_engine', true, FAREWELL_CODES.leaves_engine],
      [undefined, true, 1000],
      ['goodbye', false, 1000],
    ] as const) {
      const codes: number[] = [];
      stop = new AbortController();
      await using server = await playServer((ws, call) => {
        likeOpal(ws, call);
        if (call.method === 'subscribe') ws.on('close', (code) => codes.push(code));
      }, isOurs);
      const seen = startClient(server.url, {}, { farewell: () => farewell });
      await until(() => seen.lines.includes('connected'), 'it is connected');
      stop.abort();
      await running;
      await until(() => codes.length === 1, 'the server sees the end');
      assert.deepEqual(codes, [wanted], `${farewell} ${isOurs}`);
    }
  });

  test('what cannot be read or handled ends the connection, so that the next one catches up', async () => {
    const bad: ((ws: WebSocket) => void)[] = [
      (ws) => ws.send('{"request": {"method": "notify", "argum'),
      (ws) => ws.send(Buffer.from([1, 2, 3])),
      (ws) =>
        ws.send(
          JSON.stringify({ request: { method: 'notify', arguments: { subscription: { topic: 'a' }, data: 'throw' } } }),
        ),
      (ws) => ws.send(`"${'x'.repeat(20_000)}"`),
    ];
    const codes: number[] = [];
    await using server = await playServer((ws, call) => {
      likeOpal(ws, call);
      if (call.method !== 'subscribe') return;
      ws.on('close', (code) => codes.push(code));
      bad.shift()?.(ws);
    });
    const lines: string[] = [];
    startClient(
      server.url,
      { frameLimitBytes: 10_000 },
      {
        onConnected: async () => {
          lines.push('connected');
        },
        onNotify: () => {
          throw new Error('a mistake');
        },
        onDisconnected: () => lines.push('disconnected'),
      },
    );
    await until(() => codes.length === 4 && lines.at(-1) === 'connected', 'the fifth connection holds');
    assert.deepEqual(codes, [1007, 1003, 1011, 1009]);
  });

  test('what is published before the subscription is answered is bounded, with the names of its topics', async () => {
    const codes: number[] = [];
    await using server = await playServer((ws, call) => {
      if (call.method !== 'subscribe') return likeOpal(ws, call);
      ws.on('close', (code) => codes.push(code));
      for (let at = 0; at < 60; at++) {
        const topic = `${at}`.padEnd(300, 'x');
        ws.send(JSON.stringify({ request: { method: 'notify', arguments: { subscription: { topic }, data: 1 } } }));
      }
    });
    startClient(server.url, { frameLimitBytes: 10_000 });
    await until(() => codes.length > 0, 'the connection is ended');
    assert.equal(codes[0], 1011);
  });

  test('a readiness check that is never answered does not stop it', async () => {
    await using server = await playServer((ws, { method, id }) => {
      if (method === 'subscribe') reply(ws, id, true);
    });
    const seen = startClient(server.url, { readyPingMs: 50 });
    await until(() => seen.lines.includes('connected'), 'it goes on after five pings', 8000);
    assert.equal(server.frames.filter((text) => text.includes('"_ping_"')).length, 5);
  });

  test('a server that accepts and never answers is left after the time for opening', async () => {
    await using server = await playServer((ws, { method, id }) => {
      if (method === '_ping_') reply(ws, id, 'pong');
    });
    const seen = startClient(server.url, { openTimeoutMs: 50 });
    await until(() => server.peers.length === 2, 'it tries again');
    assert.deepEqual(seen.lines, []);
  });

  test('a server that never answers the handshake is left after the time for opening, also over a dial of our own', async () => {
    let connections = 0;
    const http = createServer();
    http.on('connection', () => connections++);
    http.on('upgrade', (_request, socket) => socket.on('error', () => undefined)); // however the client leaves
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    try {
      const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}/ws`;
      const errors: string[] = [];
      const dial = socketDial({ timeoutMs: 10_000 }, readProxies({}));
      startClient(url, { openTimeoutMs: 50, dial }, { onFailed: (reason) => errors.push(reason) });
      await until(() => connections >= 2 && errors.length > 0, 'it tries again');
      assert.match(errors[0] ?? '', /cannot connect to .*timed out/);
    } finally {
      stop.abort();
      await running;
      http.close();
      http.closeAllConnections();
    }
  });

  /** An HTTP server that refuses every upgrade. */
  async function refuseUpgrades(answer: string): Promise<{ url: string; times: number[] } & AsyncDisposable> {
    const http = createServer((_request, response: ServerResponse) => response.end());
    const times: number[] = [];
    http.on('upgrade', (_request, socket) => {
      times.push(performance.now());
      socket.on('error', () => undefined); // The client is gone before it has read all: that is its right.
      socket.end(answer);
    });
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    return {
      url: `ws://127.0.0.1:${(http.address() as AddressInfo).port}/ws`,
      times,
      async [Symbol.asyncDispose]() {
        http.close();
        http.closeAllConnections();
      },
    };
  }

  test('a refused handshake is tried again with a growing wait', async () => {
    await using server = await refuseUpgrades('HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n');
    const seen = startClient(server.url);
    await until(() => server.times.length >= 4, 'it goes on');
    assert.deepEqual(seen.lines, []);
  });

  test('Retry-After is the least wait, and a stop does not wait for it', async () => {
    await using server = await refuseUpgrades(
      'HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n',
    );
    startClient(server.url, { reconnectMaxMs: 1 });
    await until(() => server.times.length === 2, 'it comes again');
    const [first = 0, second = 0] = server.times;
    assert.ok(second - first >= 1990, `came again after ${second - first} ms`);
    const start = performance.now();
    stop.abort();
    await running;
    assert.ok(performance.now() - start < 1900);
  });

  test('a stop during the handshake ends at once', async () => {
    await using server = await refuseUpgrades('');
    await using cable = await startCable(Number(new URL(server.url).port));
    cable.freeze();
    startClient(cable.url);
    await new Promise((resolve) => setImmediate(resolve));
    stop.abort();
    await running;
  });

  test('a stop during onConnected aborts its session', async () => {
    await using server = await startSocketServer();
    let aborted = false;
    let began = false;
    startClient(
      server.url,
      {},
      {
        onConnected: (session) =>
          new Promise((resolve) => {
            began = true;
            session.signal.addEventListener('abort', () => {
              aborted = true;
              resolve();
            });
          }),
      },
    );
    await until(() => began, 'onConnected runs');
    stop.abort();
    await running;
    assert.ok(aborted);
  });
});
