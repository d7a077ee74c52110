import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { WebSocket, WebSocketServer } from 'ws';
import { silentLogger } from '../../src/lib/observe/log.js';
import { createSocketClient } from '../../src/pubsub/socket-client.js';
import { request } from '../support/http.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** OPAL's protocol in the mouth of a peer that means harm: ids of calls, topics, answers that nobody asked for, on both ends. */

const MIB = 1024 * 1024;
const call = (method: unknown, args: unknown, id: unknown = '1'): string =>
  JSON.stringify({ request: { method, arguments: args, call_id: id }, response: null });
const answered = (result: unknown, id: unknown): string =>
  JSON.stringify({ request: null, response: { result, result_type: 'str', call_id: id } });

/** What is answered, and not carried out. */
const REFUSED = ['a hundred thousand topics', 'topics of other types', 'a topic of a megabyte'];

test('an OPAL client with ids, topics and answers of any form is answered or sent away, and the server is as before', async () => {
  await using server = await startServer();
  const before = process.memoryUsage.rss();
  const messages: Readonly<Record<string, () => readonly string[]>> = {
    'ids of calls of other types': () => [7, null, {}, [], true].map((id) => call('_ping_', {}, id)),
    'ids of calls of 512 KiB': () => Array.from({ length: 40 }, () => call('_ping_', {}, 'i'.repeat(512 * 1024))),
    'the same id a thousand times': () =>
      Array.from({ length: 1000 }, () => call('subscribe', { topics: ['t'] }, 'same')),
    'names of prototypes': () =>
      ['__proto__', 'constructor', 'toString'].map((name) => call(name, { [name]: 1 }, name)),
    'a hundred thousand topics': () => [
      call('subscribe', { topics: Array.from({ length: 100_000 }, (_, at) => `t${at}`) }),
    ],
    'topics of other types': () => [
      call('subscribe', { topics: [1, null, { a: 1 }] }),
      call('subscribe', { topics: { length: 9 } }),
    ],
    'a topic of a megabyte': () => [call('subscribe', { topics: ['t'.repeat(MIB)] })],
    'unsubscribes from what was never there': () =>
      Array.from({ length: 50 }, () =>
        call('unsubscribe', { topics: Array.from({ length: 10_000 }, (_, at) => `u${at}`) }),
      ),
    'answers that nobody asked for': () => Array.from({ length: 2000 }, (_, at) => answered('x'.repeat(1000), `${at}`)),
    'a request and an answer at once': () => [
      JSON.stringify({ ...JSON.parse(call('_ping_', {})), response: { result: 1 } }),
    ],
    'a statistics topic in a thousand spellings': () => [
      call('publish', {
        topics: Array.from({ length: 1000 }, (_, at) => `__opal_stats${at}`),
        data: { a: 'x'.repeat(1000) },
        sync: true,
        notifier_id: null,
      }),
    ],
    'an announcement of a name without end': () => [
      call('publish', {
        topics: ['__opal_stats_add'],
        data: { client_id: 'c'.repeat(MIB), rpc_id: 'r'.repeat(MIB) },
        sync: true,
        notifier_id: null,
      }),
    ],
  };
  for (const [what, make] of Object.entries(messages)) {
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/ws`);
    socket.on('error', () => undefined);
    await once(socket, 'open');
    let isAnswered = false;
    const results = new Set<string>();
    socket.on('message', (data: Buffer) => {
      if (/"result_type":\s*"bool"/.test(data.subarray(0, 200).toString()))
        results.add(/"result":\s*(\w+)/.exec(data.toString())?.[1] ?? '');
      isAnswered ||= data.subarray(-200).includes('the last');
    });
    for (const message of make()) socket.send(message);
    socket.send(call('_ping_', {}, 'the last'));
    await until(() => isAnswered || socket.readyState === WebSocket.CLOSED, {
      withinMs: 10_000,
      what,
    });
    socket.terminate();
    if (REFUSED.includes(what)) assert.deepEqual([...results], ['false'], what);
  }
  assert.equal((await request(`${server.url}/healthcheck`)).status, 200);
  const { json } = await request(`${server.url}/clients`);
  assert(JSON.stringify(json).length < 20_000, 'no name is kept whole');
  const grownMib = (process.memoryUsage.rss() - before) / MIB;
  assert(grownMib < 300, `${Math.round(grownMib)} MiB`);
});

test('an OPAL server with answers, calls and publications of any form ends its connection at most, and is tried again', async () => {
  const harms: Readonly<Record<string, (socket: WebSocket, id: string) => void>> = {
    'answers of other types': (socket, id) => socket.send(answered({ accepted: { at: 1 } }, id)),
    'answers to all ids but ours': (socket) => {
      for (let at = 0; at < 5000; at++) socket.send(answered('pong', `${at}`));
      socket.close();
    },
    'publications before the answer, without end': (socket) => {
      const notice = call('notify', { subscription: { topic: 't' }, data: 'x'.repeat(64 * 1024) });
      for (let at = 0; at < 200; at++) socket.send(notice);
    },
    'a publication that is larger than any': (socket, id) => {
      socket.send(call('notify', { subscription: { topic: 't' }, data: 'x'.repeat(3 * MIB) }));
      socket.send(answered(true, id));
    },
    'topics that are none': (socket, id) => {
      for (const topic of [1, null, {}, '__proto__']) socket.send(call('notify', { subscription: { topic }, data: 1 }));
      socket.send(answered('no', id));
    },
    'calls that a client does not have': (socket, id) => {
      for (const method of ['__proto__', 'constructor', 'eval', 'log_level'])
        socket.send(call(method, { a: 1 }, 'x'.repeat(1000)));
      socket.send(answered(null, id));
    },
    'a frame nested without end': (socket) => socket.send('['.repeat(MIB)),
    'a binary frame': (socket) => socket.send(Buffer.from(call('_ping_', {})), { binary: true }),
    'a close that says a lot': (socket) => socket.close(4999, '\u202e\u001b[2J'.repeat(12)),
  };
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  await once(server, 'listening');
  const order = Object.keys(harms);
  let connections = 0;
  server.on('connection', (socket) => {
    const what = order[connections++];
    socket.on('error', () => undefined);
    let isHarmed = false;
    socket.on('message', (data: Buffer) => {
      const { request: asked } = JSON.parse(data.toString()) as { request?: { method?: string; call_id?: string } };
      if (asked?.method === '_ping_') socket.send(answered('pong', asked.call_id));
      else if (asked?.method === 'subscribe' && what === undefined) socket.send(answered(true, asked.call_id));
      else if (asked?.method === 'subscribe' && !isHarmed) {
        isHarmed = true;
        harms[what ?? '']?.(socket, asked.call_id ?? '');
      }
    });
  });
  const stop = new AbortController();
  let isConnected = false;
  const heard: unknown[] = [];
  const client = createSocketClient(
    {
      url: `ws://127.0.0.1:${(server.address() as { port: number }).port}/ws`,
      ...{ keepAliveIntervalMs: 0, reconnectMaxMs: 20, openTimeoutMs: 300, readyPingMs: 200, frameLimitBytes: 2 * MIB },
    },
    {
      log: silentLogger(),
      topics: () => ['t'],
      onConnected: async () => {
        isConnected = true;
      },
      onNotify: (topic) => heard.push(topic),
      onDisconnected: () => undefined,
    },
  );
  const before = process.memoryUsage.rss();
  const running = client.run(stop.signal);
  try {
    await until(() => isConnected, { withinMs: 20_000, what: 'it is connected to the server that is good at last' });
    assert.equal(connections, order.length + 1, 'each harm had its connection');
    assert.deepEqual(heard, [], 'nothing of a server that was not subscribed to');
    const grownMib = (process.memoryUsage.rss() - before) / MIB;
    assert(grownMib < 200, `${Math.round(grownMib)} MiB`);
  } finally {
    stop.abort();
    await running;
    for (const socket of server.clients) socket.terminate();
    server.close();
  }
});
