import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDataSource } from '../support/data-source.js';
import { type EngineRelay, engineRelay, type RelayedCall } from '../support/engine-relay.js';
import { killProcess } from '../support/kill.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { type SlowSource, startSlowSource } from '../support/slow-source.js';
import { failing, publish, type StartedClient, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
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

interface Scene {
  readonly source: SlowSource;
  readonly serverUrl: string;
  readonly opa: TestOpa;
  readonly relay: EngineRelay;
  readonly client: StartedClient;
}

/** A client whose engine holds `"old"` at /large, behind a relay that tells what the engine was sent. */
async function scene(play: (scene: Scene) => Promise<void>): Promise<void> {
  await using source = await startSlowSource();
  await using server = await startServer();
  await using opa = await startOpa();
  await using relay = await engineRelay(opa.url);
  await using client = await startClient({ serverUrl: server.url, engineUrl: relay.url, env: ENV });
  await client.healthy();
  await publish(server.url, { dst_path: '/large', data: 'old' });
  await client.holds('/large', 'old');
  await play({ source, serverUrl: server.url, opa, relay, client });
}

/** A client with an engine of its own. */
async function withInlineEngine(play: (scene: Pick<Scene, 'serverUrl' | 'client'>) => Promise<void>): Promise<void> {
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
async function sent(relay: EngineRelay, bytes: number): Promise<void> {
  const what = `${bytes} bytes of the document are with the engine`;
  await until(() => (relay.puts('/large').at(-1)?.bytes ?? 0) >= bytes, { withinMs: WITHIN_MS, what });
}

test('the engine has a large document before its end comes, shows nothing of it, and serves others meanwhile', () =>
  scene(async ({ source, serverUrl, relay, client }) => {
    await publish(serverUrl, { url: `${source.url}/large`, dst_path: '/large' });
    const answer = await source.next();
    answer.send(startOf(1, 8 * MB));
    await sent(relay, 6 * MB);
    assert.equal(await client.data('/large'), 'old');

    await publish(serverUrl, { dst_path: '/small', data: { n: 2 } });
    await client.holds('/small', { n: 2 });
    assert.equal(await client.data('/large'), 'old');

    answer.end('"}\n\n');
    await client.holds('/large', documentOf(1, 8 * MB));
    await client.healthy();
    const [, write, ...more] = relay.puts('/large');
    assert.deepEqual(more, [], 'it is sent once');
    assert.equal(write?.status, 204);
    assert.equal(write.end, 'whole');
    assert.equal(source.count, 1);
  }));

test('a large document whose end is wrong changes nothing, is named, and is read again', () =>
  scene(async ({ source, serverUrl, relay, client }) => {
    await publish(serverUrl, { url: `${source.url}/large`, dst_path: '/large' });
    const wrong = await source.next();
    wrong.send(startOf(1, 8 * MB));
    await sent(relay, 6 * MB);
    wrong.send(`"}${' '.repeat(MB)}`);
    wrong.end('and more');
    await client.tells('it is named', (health) => /large.*not JSON/.test(failing(health).join()));
    assert.equal(await client.data('/large'), 'old');

    const torn = await source.next();
    torn.send(startOf(2, 8 * MB));
    torn.send('","more":{');
    await sent(relay, 6 * MB);
    torn.tear();
    const right = await source.next();
    assert.equal(await client.data('/large'), 'old');
    right.end(`${startOf(3, 8 * MB)}"}`);
    await client.holds('/large', documentOf(3, 8 * MB));
    await client.healthy();
    const statuses = relay.puts('/large').map(({ status }) => status);
    assert.deepEqual(
      statuses.filter((status) => status === 204),
      [204, 204],
      'of all that was sent the old one and the right one took effect',
    );
  }));

test('a newer document overtakes a large one that is still read, and stays', () =>
  scene(async ({ source, serverUrl, relay, client }) => {
    await publish(serverUrl, { url: `${source.url}/large`, dst_path: '/large' });
    const answer = await source.next();
    answer.send(startOf(1, 8 * MB));
    await sent(relay, 6 * MB);
    const seq = await publish(serverUrl, { dst_path: '/large', data: 'newer' });
    await client.holds('/large', 'newer');
    answer.end('"}');
    await publish(serverUrl, { dst_path: '/after', data: seq });
    await client.holds('/after', seq);
    const [, upload] = relay.puts('/large');
    await takenBack(upload);
    assert.equal(await client.data('/large'), 'newer');
    await client.healthy();
  }));

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
    answer.send(startOf(1, 8 * MB));
    const pid = client.enginePid();
    killProcess(pid, 'SIGKILL');
    await until(() => client.enginePid() !== pid, { withinMs: WITHIN_MS, what: 'the engine is started again' });
    await client.holds('/other', 1);
    answer.end('"}');
    await client.holds('/large', documentOf(1, 8 * MB));
    await client.healthy();
  }));

test('a client stops at once while a large document hangs half way', () =>
  scene(async ({ source, serverUrl, opa, relay, client }) => {
    await publish(serverUrl, { url: `${source.url}/large`, dst_path: '/large' });
    (await source.next()).send(startOf(1, 8 * MB));
    await sent(relay, 6 * MB);
    const upload = relay.puts('/large').at(-1);
    const before = performance.now();
    await client.stop();
    const tookMs = performance.now() - before;
    assert(tookMs < 10_000, `it took ${tookMs} ms; what hangs would for 30 s`);
    await takenBack(upload);
    assert.equal(
      (await fetch(`${opa.url}/v1/data/large`).then((response) => response.text())).trim(),
      '{"result":"old"}',
    );
  }));
