import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { pino } from 'pino';
import { WebSocket } from 'ws';
import { SyncError } from '../../src/lib/errors.js';
import { ANY_PEER, type Peer } from '../../src/pubsub/peer.js';
import { PROTOCOL_HEADER } from '../../src/wire/frames.js';
import { clientFrame, RawPeer, rawSocket, startCable, startSocketServer, until } from './pubsub-peers.js';

/** The server's side of the socket, against raw frames. */

const HEX = /^[0-9a-f]{32}$/;

test('a whole session with an OPAL client, frame by frame', async () => {
  await using server = await startSocketServer();
  await using peer = await RawPeer.connect(server.url);
  peer.ws.send(
    '{"request": {"method": "_ping_", "arguments": {}, "call_id": "3cfa3db36d3d4b4790ebd594221de865"}, "response": null}',
  );
  assert.equal(
    await peer.next(),
    '{"request":null,"response":{"result":"pong","result_type":"str","call_id":"3cfa3db36d3d4b4790ebd594221de865"}}',
  );
  peer.ws.send(
    '{"request": {"method": "subscribe", "arguments": {"topics": ["policy_data"]}, "call_id": "a87008469ae34fa38ed9a62edcd55762"}, "response": null}',
  );
  assert.equal(
    await peer.next(),
    '{"request":null,"response":{"result":true,"result_type":"bool","call_id":"a87008469ae34fa38ed9a62edcd55762"}}',
  );
  const data = '{"id": null, "entries": [{"url": "", "data": {"n": 12345678901234567890, "d": 1.0}}]}';
  assert.equal(server.hub.publish({ topics: ['policy_data'], text: data }), 1);
  const notify = await peer.next();
  const { call_id, arguments: args } = JSON.parse(notify).request;
  const { id, subscriber_id } = args.subscription;
  for (const hex of [call_id, id, subscriber_id]) assert.match(hex, HEX);
  assert.equal(
    notify,
    `{"request":{"method":"notify","arguments":{"subscription":{"id":"${id}","subscriber_id":"${subscriber_id}","topic":"policy_data","notifier_id":null},"data":${data}},"call_id":"${call_id}"},"response":null}`,
  );
  peer.ws.send(`{"request": null, "response": {"result": "None", "result_type": "str", "call_id": "${call_id}"}}`);
  peer.ws.send(
    '{"request": {"method": "unsubscribe", "arguments": {"topics": ["policy_data"]}, "call_id": "u"}, "response": null}',
  );
  assert.equal(await peer.next(), '{"request":null,"response":{"result":true,"result_type":"bool","call_id":"u"}}');
  assert.equal(server.hub.publish({ topics: ['policy_data'], text: '1' }), 0);
});

test('calls: ping, a constant channel id, a call without id, topics subscribed twice', async () => {
  await using server = await startSocketServer();
  await using peer = await RawPeer.connect(server.url);
  assert.deepEqual(await peer.call('ping'), { result: 'pong', result_type: 'str', call_id: 'c' });
  const first = (await peer.call('_get_channel_id_')) as { result: string };
  assert.match(first.result, HEX);
  assert.deepEqual(await peer.call('_get_channel_id_'), first);
  peer.ws.send('{"request":{"method":"_ping_"}}');
  assert.deepEqual(JSON.parse(await peer.next()).response, { result: 'pong', result_type: 'str', call_id: null });
  await peer.call('subscribe', { topics: ['a', 'a'] });
  await peer.call('subscribe', { topics: ['a'] });
  server.hub.publish({ topics: ['a'], text: '1' });
  await peer.next();
  assert.deepEqual(await peer.call('ping'), { result: 'pong', result_type: 'str', call_id: 'c' }, 'no second notify');
});

test('an unknown method and wrong arguments are answered and change nothing', async () => {
  await using server = await startSocketServer();
  await using peer = await RawPeer.connect(server.url);
  assert.deepEqual(await peer.call('no_such_method'), { result: null, result_type: null, call_id: 'c' });
  assert.deepEqual(await peer.call('__class__'), { result: null, result_type: null, call_id: 'c' });
  for (const args of [{}, { topics: 5 }, { topics: ['a', null] }]) {
    for (const method of ['subscribe', 'unsubscribe', 'publish']) {
      assert.deepEqual(await peer.call(method, args), { result: false, result_type: 'bool', call_id: 'c' });
    }
  }
  for (const shape of ['{"request":5}', '[]', '{}', '"x"', '{"request":{"method":"_ping_","arguments":null}}'])
    peer.ws.send(shape);
  assert.deepEqual(await peer.call('ping'), { result: 'pong', result_type: 'str', call_id: 'c' });
});

const REFUSED: { name: string; send(ws: WebSocket): void; close: RegExp }[] = [
  { name: 'a frame that is not JSON', send: (ws) => ws.send('{"request":'), close: /^1007 a frame is not JSON/ },
  { name: 'a binary frame', send: (ws) => ws.send(Buffer.from('{}')), close: /^1003 text frames only/ },
  { name: 'a message above the limit', send: (ws) => ws.send(`"${'x'.repeat(5000)}"`), close: /^1009 / },
];
for (const { name, send, close } of REFUSED) {
  test(`${name} ends that connection with a code, and no other`, async () => {
    await using server = await startSocketServer({ frameLimitBytes: 4096 });
    await using bad = await RawPeer.connect(server.url);
    await using good = await RawPeer.connect(server.url);
    for (const peer of [bad, good]) await peer.call('subscribe', { topics: ['a'] });
    send(bad.ws);
    assert.match(await bad.close(), close);
    await until(() => server.hub.subscriberCount(['a']) === 1, 'the connection leaves the hub');
    server.hub.publish({ topics: ['a'], text: '1' });
    assert.match(await good.next(), /"notify"/);
  });
}

test('a peer that disconnects in the middle of a frame leaves nothing behind', async () => {
  await using server = await startSocketServer();
  const socket = await rawSocket(server.port);
  await until(() => server.sockets.connectionCount === 1, 'it is connected');
  socket.write(clientFrame('{"request":{"method":"subscribe","arguments":{"topics":["a"]}}}').subarray(0, 30));
  socket.resetAndDestroy();
  await until(() => server.sockets.connectionCount === 0, 'it is gone');
  await using peer = await RawPeer.connect(server.url);
  assert.deepEqual(await peer.call('ping'), { result: 'pong', result_type: 'str', call_id: 'c' });
});

test('a message may come in fragments and byte by byte', async () => {
  await using server = await startSocketServer();
  const socket = await rawSocket(server.port);
  socket.setNoDelay(true);
  const bytes = Buffer.concat([
    clientFrame('{"request":{"method":"subscribe",', false),
    clientFrame('"arguments":{"topics":["grün"]}}}', true, 0),
  ]);
  for (const byte of bytes) {
    socket.write(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until(() => server.hub.subscriberCount(['grün']) === 1, 'it is subscribed');
  socket.destroy();
});

test('bytes that are no WebSocket frame end the connection', async () => {
  await using server = await startSocketServer();
  const socket = await rawSocket(server.port);
  const closed = once(socket, 'close');
  socket.resume();
  socket.write(Buffer.from([0xff, 0xff, 0xff, 0xff]));
  await closed;
  await until(() => server.sockets.connectionCount === 0, 'it is gone');
});

test('a publication reaches many subscribers once each, and one that does not read is dropped without delaying them', async () => {
  await using server = await startSocketServer({ bufferLimitBytes: 256 * 1024 });
  const peers = await Promise.all(Array.from({ length: 50 }, () => RawPeer.connect(server.url)));
  await using stuck = await RawPeer.connect(server.url);
  for (const peer of [...peers, stuck]) await peer.call('subscribe', { topics: ['a', 'b'] });
  stuck.ws.pause();
  const text = JSON.stringify('x'.repeat(64 * 1024));
  let published = 0;
  let slowestMs = 0;
  while (server.hub.subscriberCount(['a']) === 51) {
    assert.ok(published < 1000, 'the stuck subscriber is dropped at some time');
    const start = performance.now();
    server.hub.publish({ topics: ['a', 'b'], text });
    published++;
    await until(() => peers.every((peer) => peer.frames.length === published + 1), 'everyone has it');
    slowestMs = Math.max(slowestMs, performance.now() - start);
  }
  assert.ok(slowestMs < 2000, `the slowest publication took ${slowestMs} ms`);
  server.hub.publish({ topics: ['b'], text: '"after"' });
  for (const peer of peers) {
    await until(() => peer.frames.length === published + 2, 'the publication after it arrives');
    await peer[Symbol.asyncDispose]();
  }
});

test('publications of one moment arrive in order', async () => {
  await using server = await startSocketServer();
  await using peer = await RawPeer.connect(server.url);
  await peer.call('subscribe', { topics: ['a'] });
  for (let index = 0; index < 100; index++) server.hub.publish({ topics: ['a'], text: String(index) });
  for (let index = 0; index < 100; index++) assert.equal(JSON.parse(await peer.next()).request.arguments.data, index);
});

test('a peer behind a dead cable is found by pings', async () => {
  await using server = await startSocketServer({ pingIntervalMs: 50, pongTimeoutMs: 100 });
  await using cable = await startCable(server.port);
  await using alive = await RawPeer.connect(server.url);
  const dead = new WebSocket(cable.url);
  await once(dead, 'open');
  await until(() => server.sockets.connectionCount === 2, 'both are connected');
  cable.freeze();
  await until(() => server.sockets.connectionCount === 1, 'the dead one is dropped');
  assert.equal(alive.closed, undefined);
  dead.terminate();
});

test('a frame that an OPAL client could not take sends it away to reload; ours gets it', async () => {
  await using server = await startSocketServer({ bufferLimitBytes: 16 * 1024 * 1024 });
  await using opal = await RawPeer.connect(server.url);
  await using ours = await RawPeer.connect(server.url, { [PROTOCOL_HEADER]: '1' });
  for (const peer of [opal, ours]) await peer.call('subscribe', { topics: ['a'] });
  // Two bytes each in UTF-8: the limit is one of bytes.
  server.hub.publish({ topics: ['a'], text: JSON.stringify('é'.repeat(600_000)) });
  assert.match(await opal.close(), /^1012 .*GET \/data\/config/);
  assert.equal(JSON.parse(await ours.next()).request.arguments.data.length, 600_000);
});

test('extensions are only for those who ask', async () => {
  await using server = await startSocketServer();
  const answers: [string | undefined, string | undefined][] = [
    [undefined, undefined],
    ['1', '1'],
    ['2', '2'],
    ['99', '2'],
    ['0', undefined],
    ['x', undefined],
  ];
  for (const [offered, answered] of answers) {
    await using peer = await RawPeer.connect(server.url, offered === undefined ? {} : { [PROTOCOL_HEADER]: offered });
    assert.equal(peer.upgrade?.headers[PROTOCOL_HEADER], answered);
    await peer.call('subscribe', { topics: ['a'] });
    server.hub.publish({ topics: ['a'], text: '"plain"', extendedText: '"extended"' });
    assert.equal(JSON.parse(await peer.next()).request.arguments.data, answered === undefined ? 'plain' : 'extended');
    await peer[Symbol.asyncDispose]();
    await until(() => server.sockets.connectionCount === 0, 'it is gone');
  }
});

test('statistics travel between peers, not back to their publisher unless it asks', async () => {
  await using server = await startSocketServer();
  await using publisher = await RawPeer.connect(server.url);
  await using other = await RawPeer.connect(server.url);
  for (const peer of [publisher, other]) await peer.call('subscribe', { topics: ['__opal_stats_add'] });
  const published = { topics: ['__opal_stats_add'], data: { rpc_id: 'r' }, sync: true, notifier_id: null };
  assert.deepEqual(await publisher.call('publish', published), { result: true, result_type: 'bool', call_id: 'c' });
  assert.deepEqual(JSON.parse(await other.next()).request.arguments.data, { rpc_id: 'r' });
  publisher.ws.send(JSON.stringify({ request: { method: 'publish', arguments: { ...published, notifier_id: 'n' } } }));
  assert.equal(JSON.parse(await publisher.next()).request.method, 'notify');
});

test('any other publish goes to the server, one after the other, with its data as written', async () => {
  const published: string[] = [];
  let running = 0;
  await using server = await startSocketServer(
    {},
    {
      authenticate: async () => ({ ...ANY_PEER, subject: 'someone' }),
      onPublish: async (topics: readonly string[], dataText: string, peer: Peer) => {
        assert.equal(++running, 1, 'publishes do not overlap');
        await new Promise((resolve) => setImmediate(resolve));
        running--;
        if (topics.includes('refused')) throw new SyncError('request_invalid', 'no');
        published.push(`${peer.subject}: ${topics} ${dataText}`);
      },
    },
  );
  await using peer = await RawPeer.connect(server.url);
  const count = 200;
  for (let index = 0; index < count; index++) {
    peer.ws.send(
      `{"request":{"method":"publish","arguments":{"topics":["a","b"],"data":{"n":${index}.0}},"call_id":"${index}"}}`,
    );
  }
  for (let index = 0; index < count; index++) {
    assert.deepEqual(JSON.parse(await peer.next()).response, {
      result: true,
      result_type: 'bool',
      call_id: String(index),
    });
  }
  assert.deepEqual(
    published,
    Array.from({ length: count }, (_, index) => `someone: a,b {"n":${index}.0}`),
  );
  assert.deepEqual(await peer.call('publish', { topics: ['refused'] }), {
    result: false,
    result_type: 'bool',
    call_id: 'c',
  });
  assert.equal(server.hub.subscriberCount(['a']), 0);
});

test('without somebody to take it, a publish is answered false', async () => {
  await using server = await startSocketServer();
  await using peer = await RawPeer.connect(server.url);
  assert.deepEqual(await peer.call('publish', { topics: ['a'], data: 1 }), {
    result: false,
    result_type: 'bool',
    call_id: 'c',
  });
});

/** The HTTP answer to an upgrade that was refused. */
async function refusal(url: string, headers: Record<string, string> = {}): Promise<string> {
  const ws = new WebSocket(url, { headers });
  ws.on('error', () => undefined); // the refusal is what is looked at
  const [, response] = await once(ws, 'unexpected-response');
  let body = '';
  for await (const chunk of response) body += chunk;
  return `${response.statusCode} ${response.headers['retry-after'] ?? '-'} ${body}`;
}

test('a refused peer gets an HTTP answer with the reason', async () => {
  await using server = await startSocketServer(
    { refusalDelayMs: 30 },
    {
      authenticate: async (request) => {
        const token = request.headers.authorization;
        if (token === 'Bearer good') return ANY_PEER;
        if (token === 'Bearer bug') throw new Error('a secret detail');
        if (token === 'Bearer often') throw new SyncError('rate_limited', 'too many', { retryAfterSeconds: 0.25 });
        throw new SyncError('request_invalid', 'the token is not valid', { status: 403 });
      },
    },
  );
  const start = performance.now();
  assert.equal(await refusal(server.url), '403 - {"detail":"the token is not valid"}');
  assert.ok(performance.now() - start >= 29, 'held back');
  assert.equal(await refusal(server.url, { authorization: 'Bearer bug' }), '500 - {"detail":"Internal Server Error"}');
  assert.equal(await refusal(server.url, { authorization: 'Bearer often' }), '429 1 {"detail":"too many"}');
  assert.match(await refusal(server.url.replace('/ws', '/other')), /^404 - .*it is at \/ws/);
  await using peer = await RawPeer.connect(`${server.url}?__opal_client_id=x`, { authorization: 'Bearer good' });
  assert.equal(peer.closed, undefined);
});

const LIMITED: Peer = { ...ANY_PEER, subject: 'limited', permittedTopics: new Set(['a']), mayPublish: true };

test('permitted topics limit subscriptions as a whole call, and a refusal is an answer, not a close', async () => {
  await using server = await startSocketServer({}, { authenticate: async () => LIMITED });
  await using peer = await RawPeer.connect(server.url);
  const refused = { result: false, result_type: 'bool', call_id: 'c' };
  assert.deepEqual(await peer.call('subscribe', { topics: ['a', 'b'] }), refused);
  assert.deepEqual(await peer.call('subscribe', { topics: ['__EventNotifier_ALL_TOPICS__'] }), refused);
  assert.deepEqual(await peer.call('subscribe', { topics: ['policy:.'] }), refused);
  assert.equal(server.hub.subscriberCount(['a', 'b', 'policy:.']), 0, 'nothing was subscribed');
  assert.deepEqual(await peer.call('subscribe', { topics: ['a'] }), { ...refused, result: true });
  assert.equal(server.hub.subscriberCount(['a']), 1);
});

test('only who may publish does, and only on permitted topics, also of statistics', async () => {
  const published: string[] = [];
  let who: Peer = LIMITED;
  const onPublish = async (topics: readonly string[]) => void published.push(...topics);
  await using server = await startSocketServer({}, { authenticate: async () => who, onPublish });
  await using limited = await RawPeer.connect(server.url);
  who = { ...ANY_PEER, mayPublish: false };
  await using reader = await RawPeer.connect(server.url);
  const result = async (peer: RawPeer, topics: string[]) =>
    ((await peer.call('publish', { topics, data: 1 })) as { result: unknown }).result;
  assert.equal(await result(reader, ['a']), false);
  assert.equal(await result(reader, ['__opal_stats_x', 'a']), false);
  assert.equal(await result(reader, ['__opal_stats_x']), true);
  assert.equal(await result(limited, ['a', 'b']), false);
  assert.equal(await result(limited, ['__opal_stats_x', 'a']), false, 'statistics, too');
  assert.equal(await result(limited, ['__opal_stats_add']), false);
  assert.equal(await result(limited, ['a']), true);
  assert.deepEqual(published, ['a']);
});

test('what is not carried out is logged once, with its code, what to do, and the topics that the token lacks', async () => {
  const lines: { code: string; error: string; remedy: string }[] = [];
  const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) });
  await using server = await startSocketServer({}, { authenticate: async () => LIMITED, log });
  await using peer = await RawPeer.connect(server.url);
  for (let time = 0; time < 2; time++) {
    await peer.call('subscribe', { topics: ['a', 'b', `c${'c'.repeat(300)}`] });
    await peer.call('publish', { topics: ['b'], data: 1 });
    await peer.call('subscribe', {});
  }
  assert.deepEqual(
    lines.map(({ code, error }) => `${code} ${error}`),
    [
      `topic_not_permitted subscribe: the token does not permit "b", "${'c'.repeat(100)}"`,
      'topic_not_permitted publish: the token does not permit "b"',
      'frame_invalid subscribe without a list of topics',
    ],
  );
  for (const { remedy } of lines) assert(remedy.length > 0);
});

test('whoever has a session is told why its connection ended', async () => {
  const whys: (string | undefined)[] = [];
  const sessions = {
    protocol: 2,
    open: () => undefined,
    takes: () => false,
    call: () => true,
    closed: (_: unknown, why?: string) => whys.push(why),
  };
  let expiresAtMs: number | undefined;
  await using server = await startSocketServer(
    { pingIntervalMs: 50, pongTimeoutMs: 100, bufferLimitBytes: 100_000 },
    { sessions, authenticate: async () => ({ ...ANY_PEER, expiresAtMs }) },
  );
  const ended = async (why: string): Promise<void> => {
    await until(() => whys.length > 0, why);
    assert.deepEqual(whys.splice(0), [why]);
  };
  await using leaving = await RawPeer.connect(server.url);
  leaving.ws.close(1000);
  await ended('it closed the connection');
  await using wrong = await RawPeer.connect(server.url);
  wrong.ws.close(4009);
  await ended('it closed the connection with code 4009');
  await using killed = await RawPeer.connect(server.url);
  killed.ws.terminate();
  await ended('its connection broke: its program was killed, or the network failed');
  await using refused = await RawPeer.connect(server.url);
  refused.ws.send('{');
  await ended('the server closed its connection: a frame is not JSON, or is no call');
  await using cable = await startCable(server.port);
  const frozen = new WebSocket(cable.url);
  await once(frozen, 'open');
  cable.freeze();
  await ended('no answer to pings for 0.1 s');
  frozen.terminate();
  expiresAtMs = Date.now() + 50;
  await using expired = await RawPeer.connect(server.url);
  await ended('its token expired');
  assert.match(await expired.close(), /^1008/);
  expiresAtMs = undefined;
  await using last = await RawPeer.connect(server.url);
  await server.sockets.close();
  await ended('its server stopped');
  assert.match(await last.close(), /^1012/);
});

test('a connection ends when the token of its peer does, and no other', async () => {
  let expiresAtMs: number | undefined = Date.now() + 150;
  await using server = await startSocketServer({}, { authenticate: async () => ({ ...ANY_PEER, expiresAtMs }) });
  await using ending = await RawPeer.connect(server.url);
  expiresAtMs = Date.now() + 100 * 86_400_000; // longer than a timer of Node can be
  await using lasting = await RawPeer.connect(server.url);
  assert.match(await ending.close(), /^1008 the token has expired/);
  assert.ok(Date.now() >= expiresAtMs - 100 * 86_400_000 - 100);
  assert.deepEqual(await lasting.call('ping'), { result: 'pong', result_type: 'str', call_id: 'c' });
});

test('publishes that wait for their turn when the token of their peer ends are not carried out', async () => {
  const expiresAtMs = Date.now() + 300;
  const carriedOut: string[] = [];
  let ended = false;
  const onPublish = async (topics: readonly string[]): Promise<void> => {
    carriedOut.push(...topics);
    await until(() => Date.now() > expiresAtMs, 'the token has ended');
    ended = true;
  };
  await using server = await startSocketServer(
    {},
    { authenticate: async () => ({ ...ANY_PEER, expiresAtMs }), onPublish },
  );
  await using peer = await RawPeer.connect(server.url);
  // Nobody answers once the connection ends: what counts is what was carried out.
  for (const topic of ['first', 'second']) peer.call('publish', { topics: [topic], data: 1 }).catch(() => undefined);
  await peer.close();
  await until(() => ended, 'the first is over');
  await new Promise(setImmediate);
  assert.deepEqual(carriedOut, ['first']);
});

test('who hammers with a bad token is held back longer each time, and room for that is bounded', async () => {
  const authenticate = async (): Promise<Peer> => {
    throw new SyncError('unauthorized', 'no');
  };
  await using server = await startSocketServer({ refusalDelayMs: 20 }, { authenticate });
  const times: number[] = [];
  for (let count = 0; count < 5; count++) {
    const start = performance.now();
    assert.match(await refusal(server.url), /^401 - /);
    times.push(performance.now() - start);
  }
  for (const [index, ms] of [20, 40, 80, 160, 160].entries()) {
    assert.ok((times[index] ?? 0) >= ms - 2, `refusal ${index} took ${times[index]} ms`);
  }

  await using slow = await startSocketServer({ refusalDelayMs: 60_000 }, { authenticate });
  const answers: string[] = [];
  const flood = Array.from({ length: 100 }, async () => void answers.push(await refusal(slow.url)));
  await until(() => answers.length === 68, 'those that cannot be held are answered');
  assert.deepEqual(new Set(answers.map((answer) => answer.slice(0, 7))), new Set(['429 10 ']));
  await slow.sockets.close();
  await Promise.all(flood);
  assert.equal(answers.filter((answer) => answer.startsWith('503 1 ')).length, 32, 'the others were held');
});

test('a peer that leaves while it is being admitted leaves nothing behind', async () => {
  let admit = (): void => undefined;
  const asked = new Promise<void>((resolve) => {
    admit = resolve;
  });
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  await using server = await startSocketServer(
    {},
    {
      authenticate: async () => {
        admit();
        await held;
        return ANY_PEER;
      },
    },
  );
  const socket = connect(server.port, '127.0.0.1');
  socket.write(
    'GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n',
  );
  await asked;
  socket.resetAndDestroy();
  await once(socket, 'close');
  release();
  await server.sockets.close();
  assert.equal(server.sockets.connectionCount, 0);
});

test('peers whose token is still looked at count as connections: of as many as come at once no more are let in', async () => {
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  let looking = 0;
  const authenticate = async (): Promise<Peer> => {
    looking++;
    await held;
    return ANY_PEER;
  };
  await using server = await startSocketServer({ maxConnections: 2 }, { authenticate });
  const first = RawPeer.connect(server.url);
  const second = RawPeer.connect(server.url);
  await until(() => looking === 2, 'two are looked at');
  assert.match(await refusal(server.url), /^503 10 /);
  release();
  await using _first = await first;
  await using _second = await second;
  assert.equal(server.sockets.connectionCount, 2);
  assert.equal(looking, 2);
});

test('where publications were skipped, whoever hears of no heartbeat is sent away to read what counts', async () => {
  const sessions = {
    protocol: 2,
    open: () => undefined,
    takes: () => false,
    call: () => true,
    closed: () => undefined,
  };
  await using server = await startSocketServer({}, { sessions });
  await using opal = await RawPeer.connect(server.url);
  await using older = await RawPeer.connect(server.url, { [PROTOCOL_HEADER]: '1' });
  await using ours = await RawPeer.connect(server.url, { [PROTOCOL_HEADER]: '2' });
  server.sockets.sendToReload();
  for (const peer of [opal, older]) assert.match(await peer.close(), /^1012 .*GET \/data\/config/);
  assert.deepEqual(await ours.call('ping'), { result: 'pong', result_type: 'str', call_id: 'c' });
});

test('a drain sends everyone away with 1001 within the spread, one by one, and refuses who comes then', async () => {
  await using server = await startSocketServer();
  const peers = await Promise.all(Array.from({ length: 20 }, () => RawPeer.connect(server.url)));
  const closed: number[] = [];
  const start = performance.now();
  const closes = peers.map((peer) =>
    peer.close().then((why) => {
      closed.push(performance.now() - start);
      return why;
    }),
  );
  const drained = server.sockets.sendAway(400, new AbortController().signal);
  assert.match(await refusal(server.url), /^503 1 /);
  await drained;
  for (const why of await Promise.all(closes)) assert.match(why, /^1001 this server drains/);
  const [first = 0, last = 0] = [closed[0], closed.at(-1)];
  assert(last - first > 100, `all between ${first} and ${last} ms`);
});

test('a stop cuts a drain short: those that were not sent away get the 1012 of a stop', async () => {
  await using server = await startSocketServer();
  await using peer = await RawPeer.connect(server.url);
  const stop = new AbortController();
  const drained = server.sockets.sendAway(3_600_000, stop.signal);
  stop.abort(new Error('stopped'));
  await assert.rejects(drained, /stopped/);
  await server.sockets.close();
  assert.match(await peer.close(), /^1012 the server is stopping/);
});

for (const how of ['sendAway', 'close'] as const) {
  test(`a publish in flight is answered before its connection ends: ${how}`, async () => {
    let record: () => void = () => undefined;
    const published: string[] = [];
    const onPublish = async (_topics: readonly string[], dataText: string): Promise<void> => {
      published.push(dataText);
      await new Promise<void>((resolve) => {
        record = resolve;
      });
    };
    await using server = await startSocketServer({}, { onPublish });
    await using peer = await RawPeer.connect(server.url);
    await using idle = await RawPeer.connect(server.url);
    const publish = (data: number): void => {
      const request = { method: 'publish', arguments: { topics: ['t'], data, sync: true }, call_id: `p${data}` };
      peer.ws.send(JSON.stringify({ request, response: null }));
    };
    publish(1);
    await until(() => published.length === 1, 'the publish is being recorded');
    const ending = how === 'close' ? server.sockets.close() : server.sockets.sendAway(0, new AbortController().signal);
    assert.match(await idle.close(), how === 'close' ? /^1012 / : /^1001 /);
    assert.equal(peer.closed, undefined);
    publish(2); // who is told to go publishes this one elsewhere
    await peer.ping();
    record();
    assert.match(await peer.next(), /"call_id":\s*"p1".*true|true.*"call_id":\s*"p1"/);
    assert.match(await peer.close(), how === 'close' ? /^1012 / : /^1001 /);
    await ending;
    assert.deepEqual(published, ['1']);
  });
}

test('close ends everyone with 1012, also who takes no part, and refuses who comes then', async () => {
  await using server = await startSocketServer({ closeGraceMs: 50 });
  await using peer = await RawPeer.connect(server.url);
  const deaf = await rawSocket(server.port);
  await until(() => server.sockets.connectionCount === 2, 'both are connected');
  await Promise.all([server.sockets.close(), server.sockets.close()]);
  assert.equal(server.sockets.connectionCount, 0);
  assert.match(await peer.close(), /^1012 the server is stopping/);
  assert.match(await refusal(server.url), /^503 1 /);
  deaf.destroy();
});

test('what a peer subscribes to is bounded in characters, and leaving a topic makes room again', async () => {
  await using server = await startSocketServer();
  await using peer = await RawPeer.connect(server.url);
  const half = (letter: string): string[] => Array.from({ length: 128 }, (_, index) => `${index}`.padEnd(1024, letter));
  const subscribe = async (...topics: string[]): Promise<unknown> =>
    ((await peer.call('subscribe', { topics })) as { result: unknown }).result;
  assert.equal(await subscribe(...half('a'), ...half('b')), true);
  assert.equal(await subscribe(...half('a')), true, 'what is there already counts once');
  assert.equal(await subscribe('c'), false);
  assert.equal(server.hub.subscriberCount(['c']), 0);
  await peer.call('unsubscribe', { topics: half('a') });
  assert.equal(await subscribe('c'.repeat(1025)), false, 'too long');
  assert.equal(await subscribe('c'), true);
});
