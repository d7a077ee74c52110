import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { silentLogger } from '../../src/lib/observe/log.js';
import { createSocketClient } from '../../src/pubsub/socket-client.js';
import { field, request } from '../support/http.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

test('an address that asks more than its rate is answered 429 with Retry-After, health checks are not', async () => {
  await using server = await startServer({ SYNC_RATE_LIMIT: '3 per hour' });
  const statuses = [];
  for (let ask = 0; ask < 4; ask++) statuses.push((await fetch(`${server.url}/data/config`)).status);
  assert.deepEqual(statuses, [200, 200, 200, 429]);
  const refused = await fetch(`${server.url}/nothing`);
  assert.equal(refused.status, 429);
  assert(Number(refused.headers.get('retry-after')) > 3000);
  assert.equal(refused.headers.get('x-sync-error'), 'rate_limited');
  assert.deepEqual(await refused.json(), { detail: '3 per 1 hour' });
  assert.equal((await fetch(`${server.url}/healthcheck`)).status, 200);
  assert.equal((await fetch(`${server.url}/`)).status, 200);
});

test('sockets count for the rate of their address', async () => {
  await using server = await startServer({ SYNC_RATE_LIMIT: '1 per hour' });
  await using _first = await startPeer(server.url);
  assert.equal(await refusedStatus(server.url), 429);
});

test('a full server refuses further sockets with 503, takes one again when another left, and stays healthy', async () => {
  await using server = await startServer({ SYNC_MAX_CONNECTIONS: '2' });
  await using _first = await startPeer(server.url);
  {
    await using _second = await startPeer(server.url);
    assert.equal(await refusedStatus(server.url), 503);
    assert.equal((await fetch(`${server.url}/healthcheck`)).status, 200);
  }
  await until(
    async () => {
      const socket = new WebSocket(`${server.url.replace('http', 'ws')}/ws`);
      const opened = await Promise.race([
        once(socket, 'open').then(() => true),
        once(socket, 'error').then(() => false),
      ]);
      socket.terminate();
      return opened;
    },
    { withinMs: 20_000, what: 'a place for another socket' },
  );
});

test('GET /loadlimit lets clients through at the set rate', async () => {
  await using server = await startServer({ SYNC_CLIENT_LOAD_LIMIT_NOTATION: '2 per minute' });
  const answers = [];
  for (let ask = 0; ask < 3; ask++) answers.push(await fetch(`${server.url}/loadlimit`));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 429],
  );
  assert.deepEqual(await answers[0]?.json(), null);
  assert.deepEqual(await answers[2]?.json(), { detail: '2 per 1 minute' });
  assert(Number(answers[2]?.headers.get('retry-after')) > 0);
});

test('without a limit GET /loadlimit lets everyone through', async () => {
  await using server = await startServer();
  for (let ask = 0; ask < 20; ask++) assert.equal((await fetch(`${server.url}/loadlimit`)).status, 200);
});

test('pages of the allowed origins may call, others are not told that they may', async () => {
  await using server = await startServer({ SYNC_ALLOWED_ORIGINS: 'https://console.example' });
  const preflight = (origin: string) =>
    fetch(`${server.url}/data/config`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    });
  const allowed = await preflight('https://console.example');
  assert.equal(allowed.status, 200);
  assert.equal(allowed.headers.get('access-control-allow-origin'), 'https://console.example');
  assert.equal(allowed.headers.get('access-control-allow-headers'), 'authorization');
  assert.equal(allowed.headers.get('access-control-max-age'), '600');
  const simple = await fetch(`${server.url}/`, { headers: { origin: 'https://console.example' } });
  assert.equal(simple.headers.get('access-control-allow-origin'), 'https://console.example');
  for (const other of [
    await preflight('https://evil.example'),
    await fetch(`${server.url}/`, { headers: { origin: 'https://evil.example' } }),
  ]) {
    assert.equal(other.headers.get('access-control-allow-origin'), null);
  }
});

test('by default no page of another origin may call', async () => {
  await using server = await startServer();
  const answer = await fetch(`${server.url}/`, { headers: { origin: 'https://console.example' } });
  assert.equal(answer.headers.get('access-control-allow-origin'), null);
});

test('a web page of another site can change nothing and open no socket; programs and listed pages can', async () => {
  await using server = await startServer({ SYNC_ALLOWED_ORIGINS: 'https://console.example' });
  const update = { entries: [{ url: 'http://evil.example/', topics: ['t'], dst_path: '/x' }] };
  const publish = async (headers: Record<string, string>): Promise<number> => {
    // Bytes have no Content-Type, so a browser would not ask before it sends them.
    const body = Buffer.from(JSON.stringify(update));
    return (await fetch(`${server.url}/data/config`, { method: 'POST', headers, body })).status;
  };
  const open = async (headers: Record<string, string>): Promise<unknown> => {
    await using peer = await startPeer(server.url, headers);
    return await peer.call('subscribe', { topics: ['t'] });
  };
  for (const origin of ['https://evil.example', 'null', `http://127.0.0.1:${server.port + 1}`]) {
    assert.equal(await publish({ origin }), 403, origin);
  }
  await assert.rejects(open({ origin: 'https://evil.example' }), /403/);
  const { entries } = (await request(`${server.url}/data/config`)).json as { entries: unknown[] };
  assert.deepEqual(entries, []);
  for (const headers of [{}, { origin: server.url }, { origin: 'https://console.example' }]) {
    assert.equal(await publish(headers), 200);
    assert.equal(await open(headers), true);
  }
});

test('statistics list clients by the id that they announced, with their topics, until they leave', async () => {
  await using server = await startServer({ SYNC_STATISTICS_ENABLED: 'true', SYNC_MAX_CHANNELS_PER_CLIENT: '1' });
  const get = async (path: string) => (await request(`${server.url}${path}`)).json;
  {
    await using peer = await startPeer(server.url);
    await peer.call('subscribe', { topics: ['policy_data'] });
    const announced = { client_id: 'CLIENT_a', rpc_id: 'rpc-1', topics: ['policy_data'] };
    assert.equal(await peer.call('publish', { topics: ['__opal_stats_add'], data: announced }), true);
    await using named = await startPeer(server.url);
    await named.call('subscribe', { topics: ['policy:.'] });
    const statistics = await get('/statistics');
    assert.match(String(field(statistics, 'uptime')), /^\d{4}-\d\d-\d\dT[\d:.]{15}$/);
    assert.deepEqual(field(statistics, 'clients', 'CLIENT_a'), [
      { rpc_id: 'rpc-1', client_id: 'CLIENT_a', topics: ['policy_data'] },
    ]);
    assert.equal(Object.keys(Object(field(statistics, 'clients'))).length, 2);
    assert.equal(field(statistics, 'servers', 'length'), 1);
    assert.equal(field(await get('/stats'), 'client_count'), 2);
    assert.equal(field(await get('/stats'), 'server_count'), 1);
  }
  await until(async () => field(await get('/stats'), 'client_count') === 0, { withinMs: 20_000, what: 'nobody left' });
});

test('a client with statistics on is listed by its own id', async () => {
  await using server = await startServer({ SYNC_STATISTICS_ENABLED: 'true' });
  const stop = new AbortController();
  const client = createSocketClient(
    {
      url: `${server.url.replace('http', 'ws')}/ws`,
      keepAliveIntervalMs: 0,
      reconnectMaxMs: 1000,
      announceAs: 'CLIENT_mine',
    },
    {
      log: silentLogger(),
      topics: () => ['policy_data'],
      onConnected: async () => undefined,
      onNotify: () => undefined,
      onDisconnected: () => undefined,
    },
  );
  const running = client.run(stop.signal);
  try {
    const listed = await until(
      async () => field((await request(`${server.url}/statistics`)).json, 'clients', 'CLIENT_mine'),
      { withinMs: 20_000, what: 'the client in the statistics' },
    );
    assert.deepEqual(field(listed, 0, 'topics'), ['policy_data']);
    assert.match(String(field(listed, 0, 'rpc_id')), /^[0-9a-f]{32}$/);
  } finally {
    stop.abort();
    await running;
  }
});

test('statistics that are off say how to turn them on', async () => {
  await using server = await startServer();
  for (const path of ['/statistics', '/stats']) {
    const answer = await fetch(`${server.url}${path}`);
    assert.equal(answer.status, 501);
    assert.match(String(field(await answer.json(), 'detail', 'error')), /SYNC_STATISTICS_ENABLED=true/);
  }
});

test('GET /pubsub_client_info lists the connections and their topics', async () => {
  await using server = await startServer();
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/ws?__opal_client_id=abc&x=1`);
  await once(socket, 'open');
  socket.send(JSON.stringify({ request: { method: 'subscribe', arguments: { topics: ['t'] }, call_id: '1' } }));
  await once(socket, 'message');
  const info = field((await request(`${server.url}/pubsub_client_info`)).json, 'abc');
  socket.terminate();
  assert.equal(field(info, 'client_id'), 'abc');
  assert.equal(field(info, 'source_host'), '127.0.0.1');
  assert.deepEqual(field(info, 'subscribed_topics'), ['t']);
  assert.deepEqual(field(info, 'query_params'), { __opal_client_id: 'abc', x: '1' });
  assert.equal(field(info, 'refcount'), 1);
});

test('the server documents itself: /openapi.json has every route, /docs shows it', async () => {
  await using server = await startServer();
  const paths = Object(field((await request(`${server.url}/openapi.json`)).json, 'paths'));
  for (const path of ['/data/config', '/policy', '/healthcheck', '/statistics', '/loadlimit'])
    assert(path in paths, path);
  assert.equal((await fetch(`${server.url}/docs`)).status, 200);
});

/** The status with which an upgrade is refused. */
async function refusedStatus(url: string): Promise<number> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write(
    'GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  );
  const [first] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return Number(/^HTTP\/1\.1 (\d+)/.exec(first.toString())?.[1]);
}
