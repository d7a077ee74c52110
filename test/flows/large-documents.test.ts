import assert from 'node:assert/strict';
import { after, before, describe, it, test } from 'node:test';
import { startDataSource } from '../support/data-source.js';
import { type EngineRelay, engineRelay, type RelayedCall } from '../support/engine-relay.js';
import { killProcess } from '../support/kill.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { type SlowSource, startSlowSource } from '../support/slow-source.js';
import { failing, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/**
 * A large document goes to the engine while it is still read from its source, all but its end (design D1, D4):
 * nobody sees a part of it, and nobody waits for it.
 */

const ENV = { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_HTTP_FETCHER_TIMEOUT: '30' };
const WITHIN_MS = 20_000;
const MB = 1_000_000;

/** The first part of `{"n":...,"text":"xxx..."}`; `}` ends it, after `"`. */
const startOf = (n: number, bytes: number): string => `{"n":${n},"text":"${'x'.repeat(bytes)}`;
/** What the source had sent, in all, of a document that ended well. */
const documentOf = (n: number, bytes: number): object => ({ n, text: 'x'.repeat(bytes) });

/** A client with an engine of its own. */
async function withInlineEngine(
  play: (scene: { serverUrl: string; client: StartedClient }) => Promise<void>,
): Promise<void> {
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, env: ENV });
  await client.healthy();
  await play({ serverUrl: server.url, client });
}

/** Waits until a write was broken off before its end. */
async function takenBack(write: RelayedCall | undefined): Promise<void> {
  await until(() => write?.end === 'torn', { withinMs: WITHIN_MS, what: 'what was sent is taken back' });
  assert.notEqual(write?.status, 204);
}

/** Waits until so much of a document has come to the engine in its newest write. */
async function sent(relay: EngineRelay, path: string, bytes: number): Promise<void> {
  const what = `${bytes} bytes of the document are with the engine`;
  await until(() => (relay.puts(path).at(-1)?.bytes ?? 0) >= bytes, { withinMs: WITHIN_MS, what });
}

describe('a large document', () => {
  let source: SlowSource;
  let server: StartedServer;
  let opa: TestOpa;
  /** Tells what the engine was sent. */
  let relay: EngineRelay;
  let client: StartedClient;
  before(async () => {
    source = await startSlowSource();
    server = await startServer();
    opa = await startOpa();
    relay = await engineRelay(opa.url);
    client = await startClient({ serverUrl: server.url, engineUrl: relay.url, env: ENV });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, relay, opa, server, source]) await part[Symbol.asyncDispose]();
  });

  /** A path of its own for each case, where the engine holds `"old"`. */
  async function old(number: number): Promise<string> {
    const path = `/large${number}`;
    await publish(server.url, { dst_path: path, data: 'old' });
    await client.holds(path, 'old');
    return path;
  }

  it('the engine has a large document before its end comes, shows nothing of it, and serves others meanwhile', async () => {
    const path = await old(1);
    const before = source.count;
    await publish(server.url, { url: `${source.url}/large`, dst_path: path });
    const answer = await source.next();
    answer.send(startOf(1, 5 * MB));
    await sent(relay, path, 3 * MB);
    assert.equal(await client.data(path), 'old');

    await publish(server.url, { dst_path: '/small', data: { n: 2 } });
    await client.holds('/small', { n: 2 });
    assert.equal(await client.data(path), 'old');

    answer.end('"}\n\n');
    await client.holds(path, documentOf(1, 5 * MB));
    await client.healthy();
    const [, write, ...more] = relay.puts(path);
    assert.deepEqual(more, [], 'it is sent once');
    assert.equal(write?.status, 204);
    assert.equal(write.end, 'whole');
    assert.equal(source.count, before + 1);
  });

  it('a large document whose end is wrong changes nothing, is named, and is read again', async () => {
    const path = await old(2);
    await publish(server.url, { url: `${source.url}/large`, dst_path: path });
    const wrong = await source.next();
    wrong.send(startOf(1, 5 * MB));
    await sent(relay, path, 3 * MB);
    wrong.send(`"}${' '.repeat(MB)}`);
    wrong.end('and more');
    await client.tells('it is named', (health) => /large2.*not JSON/.test(failing(health).join()));
    assert.equal(await client.data(path), 'old');

    const torn = await source.next();
    torn.send(startOf(2, 5 * MB));
    torn.send('","more":{');
    await sent(relay, path, 3 * MB);
    torn.tear();
    const right = await source.next();
    assert.equal(await client.data(path), 'old');
    right.end(`${startOf(3, 5 * MB)}"}`);
    await client.holds(path, documentOf(3, 5 * MB));
    await client.healthy();
    const statuses = relay.puts(path).map(({ status }) => status);
    assert.deepEqual(
      statuses.filter((status) => status === 204),
      [204, 204],
      'of all that was sent the old one and the right one took effect',
    );
  });

  it('a newer document overtakes a large one that is still read, and stays', async () => {
    const path = await old(3);
    await publish(server.url, { url: `${source.url}/large`, dst_path: path });
    const answer = await source.next();
    answer.send(startOf(1, 5 * MB));
    await sent(relay, path, 3 * MB);
    const seq = await publish(server.url, { dst_path: path, data: 'newer' });
    await client.holds(path, 'newer');
    answer.end('"}');
    await publish(server.url, { dst_path: '/after', data: seq });
    await client.holds('/after', seq);
    const [, upload] = relay.puts(path);
    await takenBack(upload);
    assert.equal(await client.data(path), 'newer');
    await client.healthy();
  });

  it('a client stops at once while a large document hangs half way', async () => {
    const path = await old(4);
    await publish(server.url, { url: `${source.url}/large`, dst_path: path });
    (await source.next()).send(startOf(1, 5 * MB));
    await sent(relay, path, 3 * MB);
    const upload = relay.puts(path).at(-1);
    const before = performance.now();
    await client.stop();
    const tookMs = performance.now() - before;
    assert(tookMs < 10_000, `it took ${tookMs} ms; what hangs would for 30 s`);
    await takenBack(upload);
    assert.equal(
      (await fetch(`${opa.url}/v1/data${path}`).then((response) => response.text())).trim(),
      '{"result":"old"}',
    );
  });
});

test('of several large documents that arrive together all come in', () =>
  withInlineEngine(async ({ serverUrl, client }) => {
    await using source = await startDataSource();
    const entries = [1, 2, 3].map((n) => ({ url: `${source.url}/${n}`, dst_path: `/large/d${n}` }));
    for (const n of [1, 2, 3]) source.serve(`/${n}`, documentOf(n, (2 + n) * MB));
    await publish(serverUrl, ...entries);
    for (const n of [1, 2, 3]) await client.holds(`/large/d${n}`, documentOf(n, (2 + n) * MB));
    await client.healthy();
  }));

test('an engine that is killed amid a large document gets it whole when it is back', () =>
  withInlineEngine(async ({ serverUrl, client }) => {
    await using source = await startSlowSource();
    await publish(serverUrl, { dst_path: '/other', data: 1 });
    await client.holds('/other', 1);
    await publish(serverUrl, { url: `${source.url}/large`, dst_path: '/large' });
    const answer = await source.next();
    answer.send(startOf(1, 5 * MB));
    const pid = client.enginePid();
    killProcess(pid, 'SIGKILL');
    await until(() => client.enginePid() !== pid, { withinMs: WITHIN_MS, what: 'the engine is started again' });
    await client.holds('/other', 1);
    answer.end('"}');
    await client.holds('/large', documentOf(1, 5 * MB));
    await client.healthy();
  }));
