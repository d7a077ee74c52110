import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { startCallbackReceiver } from '../support/callback-receiver.js';
import { cpuTimer } from '../support/cpu-time.js';
import { columns, row, startDatabase, withoutEnd } from '../support/hostile-database.js';
import { postJson } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { failing, publish, type StartedClient, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** What listens at an address that a publisher named may answer anything: no answer ends a client, or holds up what others published. */

const ENV = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
const MIB = 1024 * 1024;

async function failsWith(client: StartedClient, path: string, reason: RegExp): Promise<void> {
  await client.tells(`${path} fails with ${reason}`, (health) =>
    failing(health).some((text) => text.startsWith(`${path}: `) && reason.test(text)),
  );
}

test('an answer in thousands of content encodings is refused before a decoder is made', async () => {
  await using server = await startServer();
  const http = createHttpServer((request, response) => {
    const count = Number(request.url?.slice(1));
    let body = Buffer.from('{"a":1}');
    for (let at = 0; at < Math.min(count, 3); at++) body = gzipSync(body);
    response.writeHead(200, { 'content-encoding': Array(count).fill('gzip').join(','), 'content-length': body.length });
    response.end(body);
  });
  await using source = await listening(http);
  await using client = await startClient({ serverUrl: server.url, env: ENV });
  await client.healthy();
  await publish(
    server.url,
    { url: `${source.url}/3`, dst_path: '/three' },
    { url: `${source.url}/4`, dst_path: '/four' },
    { url: `${source.url}/2500`, dst_path: '/many' },
  );
  await client.holds('/three', { a: 1 });
  await failsWith(client, '/four', /more than 3 content encodings/);
  await failsWith(client, '/many', /more than 3 content encodings/);
});

test('an answer that is much between two codings, and nothing after the last, ends at the limit of a document', async () => {
  await using server = await startServer();
  const nothing = gzipSync('');
  const much = Buffer.alloc(64 * MIB - ((64 * MIB) % nothing.length), nothing);
  const body = gzipSync(gzipSync(much));
  assert(body.length < MIB / 8, `${body.length} bytes`);
  const http = createHttpServer((request, response) => {
    response.writeHead(request.url === '/fails' ? 500 : 200, { 'content-encoding': 'gzip, gzip, gzip' });
    response.end(body);
  });
  await using source = await listening(http);
  await using client = await startClient({
    serverUrl: server.url,
    env: { ...ENV, SYNC_FETCH_LIMIT_BYTES: String(MIB) },
  });
  await client.healthy();
  const spentMs = cpuTimer();
  await publish(
    server.url,
    { url: `${source.url}/`, dst_path: '/nothing' },
    { url: `${source.url}/fails`, dst_path: '/fails' },
  );
  await failsWith(client, '/nothing', /unpacks to more than 1048576 bytes/);
  await failsWith(client, '/fails', /500/);
  assert(spentMs() < 3000, `${spentMs()} ms`);
});

test('a database that sends rows without end is cut off', async () => {
  await using server = await startServer();
  await using database = await startDatabase({
    fetch: (socket) => {
      socket.write(columns(['row', 'key']));
      withoutEnd(socket, row('1'.repeat(MIB), null));
    },
  });
  await using client = await startClient({ serverUrl: server.url, env: ENV });
  await client.healthy();
  const config = { fetcher: 'postgres', query: 'select 1' };
  await publish(server.url, {
    url: database.url,
    dst_path: '/x',
    config,
  });
  await failsWith(client, '/x', /answered one statement with more than 134217728 bytes/);
  await until(() => database.ended() > 0, { withinMs: 20_000, what: 'the connection is cut' });
  await publish(server.url, { dst_path: '/y', data: 1 });
  await client.holds('/y', 1);
});

test("a callback that a publisher names does not get the client's token for other services at the server's origin", async () => {
  await using server = await startServer(withKeys());
  const token = await tokenOf(server.url, { type: 'client' });
  const publisher = await tokenOf(server.url, { type: 'datasource', claims: { permitted_topics: ['acme'] } });
  // The address that the client knows its server by is that of an ingress, with other services behind it.
  await using other = await startCallbackReceiver();
  const env = {
    ...ENV,
    SYNC_CLIENT_TOKEN: token,
    SYNC_DATA_TOPICS: 'acme',
    SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true',
    SYNC_DEFAULT_UPDATE_CALLBACKS: '{"callbacks":[]}',
  };
  await using front = await startIngress(server.port, Number(new URL(other.url).port));
  await using client = await startClient({ serverUrl: front.url, env });
  await client.healthy();
  const callbacks = [
    `${front.url}/other/a`,
    [`${front.url}/data/callback_report`, { headers: { Host: 'other.example' } }],
    `${front.url}/other/../other/data/callback_report`,
  ];
  const entries = [{ url: '', topics: ['acme'], dst_path: '/a', data: 1 }];
  const answer = await postJson(`${server.url}/data/config`, { entries, callback: { callbacks } }, bearer(publisher));
  assert.equal(answer.status, 200);
  await until(() => other.calls.length === 3, { withinMs: 20_000, what: 'the other service has all reports' });
  for (const { headers, path } of other.calls) assert.equal(headers.authorization, undefined, path);
});

/** Passes connections on: to another service where the first request says so by path or name, else to the sync server. */
async function startIngress(serverPort: number, otherPort: number): Promise<{ url: string } & AsyncDisposable> {
  const ingress = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (data) => {
      const isOther = /^\S+ \/other\/|^host: other/im.test(data.toString('latin1'));
      const onward = connect(isOther ? otherPort : serverPort, '127.0.0.1');
      onward.on('error', () => socket.destroy());
      socket.on('close', () => onward.destroy());
      onward.write(data);
      socket.pipe(onward).pipe(socket);
    });
  });
  const { port, ...rest } = await listeningTcp(ingress);
  return { url: `http://127.0.0.1:${port}`, ...rest };
}

async function listeningTcp(server: Server): Promise<{ port: number } & AsyncDisposable> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
