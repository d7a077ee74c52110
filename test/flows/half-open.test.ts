import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { silentLogger } from '../../src/lib/observe/log.js';
import { createSocketClient } from '../../src/pubsub/socket-client.js';
import { IdClaims } from '../../src/server/clients/id-claims.js';
import { ClientRegistry } from '../../src/server/clients/registry.js';
import { ClientSessions } from '../../src/server/clients/session-handler.js';
import { startSocketServer } from '../contracts/pubsub-peers.js';
import { cutCable } from '../support/cut-cable.js';
import { field, request } from '../support/http.js';
import { publish } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** A connection that is dead without having ended, between a client's own socket and a server's. */

const TOPIC = 'policy_data';
/** Longer than a busy machine takes to answer one. */
const PING_MS = 1000;
const WITHIN = { withinMs: 15_000 };

interface Follower extends AsyncDisposable {
  /** Subscriptions that were accepted. */
  readonly connected: readonly unknown[];
  /** Why connections ended. */
  readonly ended: readonly string[];
  /** Why attempts, or connections, failed. */
  readonly failed: readonly string[];
  /** Notices. */
  readonly texts: readonly string[];
}

/** The client's own socket, with pings that are short enough for a test. */
function follow(serverUrl: string, clientId: string): Follower {
  const stop = new AbortController();
  const [connected, ended, failed, texts]: [unknown[], string[], string[], string[]] = [[], [], [], []];
  const client = createSocketClient(
    {
      url: `${serverUrl.replace(/^http/, 'ws')}/ws`,
      keepAliveIntervalMs: 0,
      reconnectMaxMs: 200,
      pingIntervalMs: PING_MS,
    },
    {
      log: silentLogger(),
      topics: () => [TOPIC],
      subscribeWith: () => ({ client_id: clientId }),
      onConnected: async ({ subscribed }) => void connected.push(subscribed),
      onNotify: (_, text) => void texts.push(text),
      onDisconnected: (reason) => void ended.push(reason),
      onFailed: (reason) => void failed.push(reason),
    },
  );
  const done = client.run(stop.signal);
  return {
    connected,
    ended,
    failed,
    texts,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await done;
    },
  };
}

// They wait for pings most of the time.
describe('a connection that is dead without having ended', { concurrency: true }, () => {
  it('nothing passes in either direction: both sides notice by pings, and the client comes back when it can', async () => {
    const registry = new ClientRegistry(
      { instance: 'i', memoryMs: 60_000 },
      { head: () => 0, now: Date.now, claims: new IdClaims({ memoryMs: 60_000 }) },
    );
    const log = { epoch: 'e', head: 0, status: { up: true } as const, heads: () => ({}) };
    const sessions = new ClientSessions(
      { heartbeatMs: 60_000 },
      { registry, log, policyHead: () => undefined, otherName: () => undefined, logger: silentLogger() },
    );
    await using server = await startSocketServer({ pingIntervalMs: PING_MS, pongTimeoutMs: PING_MS }, { sessions });
    await using cable = await cutCable(`http://127.0.0.1:${server.port}`);
    await using client = follow(cable.url, 'c');
    await until(() => registry.peerOf('c', null), { ...WITHIN, what: 'it is connected' });
    await until(() => client.connected.length === 1, { ...WITHIN, what: 'the client has the answer' });

    cable.freeze();
    await until(() => client.ended.length === 1, { ...WITHIN, what: 'the client notices' });
    await until(() => registry.peerOf('c', null) === undefined, { ...WITHIN, what: 'the server notices' });
    assert.deepEqual(
      registry.list().map(({ clientId, awaySinceMs }) => [clientId, awaySinceMs !== null]),
      [['c', true]],
    );
    assert.equal(server.sockets.connectionCount, 0);

    cable.mend();
    await until(() => registry.peerOf('c', null), { ...WITHIN, what: 'it is connected again' });
    assert.equal(registry.list().length, 1);
  });

  it('a client that noticed first comes back beside its old connection: it is not refused, listed once, and told once', async () => {
    await using server = await startServer();
    await using cable = await cutCable(server.url);
    await using client = follow(cable.url, 'c');
    await until(() => client.connected.length === 1, { ...WITHIN, what: 'it is connected' });
    const listed = async (): Promise<unknown[]> => {
      const clients = field((await request(`${server.url}/clients`)).json, 'clients');
      assert(Array.isArray(clients));
      return clients.map((each) => ['client_id', 'kind', 'connected', 'duplicates'].map((name) => field(each, name)));
    };
    const once = [['c', 'session', true, 0]];
    assert.deepEqual(await listed(), once);

    cable.freezeOpen();
    await until(() => client.connected.length === 2, { ...WITHIN, what: 'it is connected again' });
    assert.deepEqual(await listed(), once);
    assert.equal(client.ended.length, 1, client.ended.join('\n'));
    assert.doesNotMatch(client.failed.join('\n'), /refused/);
    const seq = await publish(server.url, { dst_path: '/a', data: 1 });
    await until(() => client.texts.length > 0, { ...WITHIN, what: 'a notice' });
    assert.deepEqual(
      client.texts.map((text) => field(JSON.parse(text), 'seq')),
      [seq],
    );
    // What was held back on the old connection, and its end, come late: they are nobody's any more.
    cable.mend();
    await publish(server.url, { dst_path: '/b', data: 1 });
    await until(() => client.texts.length > 1, { ...WITHIN, what: 'the next notice' });
    assert.deepEqual(await listed(), once);
    assert.equal(client.connected.length, 2);
  });
});
