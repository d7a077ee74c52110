import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it, test } from 'node:test';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { field } from '../support/http.js';
import { failing, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { together } from '../support/together.js';
import { type TrickleSource, trickleSource } from '../support/trickle-source.js';
import { until } from '../support/until.js';

/** Few turns, and nothing that is stuck comes loose within a test. */
const PATIENT = {
  SYNC_POLICY_UPDATER_ENABLED: 'false',
  SYNC_FETCHING_WORKER_COUNT: '6',
  SYNC_FETCH_PER_HOST: '6',
  SYNC_HTTP_FETCHER_TIMEOUT: '120',
  SYNC_FETCH_TOTAL_TIMEOUT: '300',
};

describe('sources that are stuck', () => {
  let source: DataSource;
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    source = await startDataSource();
    source.serve('/good', { fine: true });
    server = await startServer();
    client = await startClient({ serverUrl: server.url, env: PATIENT });
    await client.tells('it is connected', (health) => field(health, 'server', 'connected') === true);
  });
  after(async () => {
    for (const part of [client, server, source]) await part?.[Symbol.asyncDispose]();
  });
  afterEach(async () => {
    // The next case has all turns for itself.
    await publish(server.url, { dst_path: '/bad', save_method: 'DELETE' });
    await client.tells('nothing is failing', (health) => failing(health).length === 0);
  });

  /** Publishes updates with a good URL each, and waits until the engine has them all. */
  async function goodUpdates(path: string, count: number): Promise<void> {
    for (let number = 1; number <= count; number++) {
      await publish(server.url, { url: `${source.url}/good`, dst_path: `${path}/${number}` });
    }
    const later = Object.fromEntries(Array.from({ length: count }, (_, index) => [String(index + 1), { fine: true }]));
    await client.holds(path, later);
  }

  it('sources that answer nothing, headers alone or a byte a second hold up no other entry, of their update or later', async () => {
    await using mute = await trickleSource('mute');
    await using headers = await trickleSource('headers');
    await using trickle = await trickleSource('trickle');
    const bad = [mute, headers, trickle];
    await publish(
      server.url,
      ...bad.map(({ url }, index) => ({ url: `${url}/doc`, dst_path: `/bad/${index}` })),
      { url: `${source.url}/good`, dst_path: '/same/byUrl' },
      { dst_path: '/same/inline', data: 1 },
    );
    await client.holds('/same', { byUrl: { fine: true }, inline: 1 });
    await until(() => bad.every(({ open }) => open === 1), { withinMs: 20_000, what: 'all bad sources are asked' });
    await goodUpdates('/after-one', 20);
    await publish(server.url, { dst_path: '/bad/1', data: 'written over what is not there yet' });
    await client.holds('/bad', { 1: 'written over what is not there yet' });
    await until(() => headers.open === 0, { withinMs: 20_000, what: 'nobody waits for what was replaced' });
    assert.deepEqual(
      [mute, headers, trickle].map(({ open, count }) => [open, count]),
      [
        [1, 1],
        [0, 1],
        [1, 1],
      ],
      'the others are stuck as before, and nobody asked again',
    );
  });

  describe('a hundred entries of one bad host leave room for the others', () => {
    for (const manners of ['mute', 'headers', 'trickle'] as const) {
      it(manners, async () => {
        await using bad = await trickleSource(manners);
        const entries = Array.from({ length: 100 }, (_, index) => ({
          url: `${bad.url}/${index}`,
          dst_path: `/bad/${index}`,
        }));
        await publish(server.url, ...entries);
        await until(() => bad.open > 0, { withinMs: 20_000, what: 'the bad host is asked' });
        const before = bad.open;
        await goodUpdates(`/after/${manners}`, 30);
        assert(bad.open >= before, 'it is as stuck as it was');
        assert(bad.mostOpen <= 5, `${bad.mostOpen} requests at one time: one of six turns is for others`);
        assert.equal(await client.data('/bad'), undefined);
      });
    }
  });

  it('many bad hosts with many entries each, all of them stuck, do not take all the turns', async (t) => {
    await using hosts = together<TrickleSource>();
    for (const manners of ['mute', 'headers', 'trickle', 'trickle'] as const) hosts.add(await trickleSource(manners));
    let mostOpen = 0;
    const openNow = (): number => hosts.all.reduce((sum, { open }) => sum + open, 0);
    const look = setInterval(() => {
      mostOpen = Math.max(mostOpen, openNow());
    }, 5);
    const entries = hosts.all.flatMap(({ url }, host) =>
      Array.from({ length: 25 }, (_, index) => ({ url: `${url}/${index}`, dst_path: `/bad/${host}/${index}` })),
    );
    try {
      await publish(server.url, ...entries);
      await until(() => openNow() >= 6, { withinMs: 20_000, what: 'every turn is taken' });
      await goodUpdates('/after-many', 30);
      assert(openNow() >= 6, 'nothing was released meanwhile');
    } finally {
      clearInterval(look);
    }
    t.diagnostic(`100 entries of 4 bad hosts had ${mostOpen} requests at one time`);
    assert(mostOpen <= 30, 'what runs is bounded overall');
  });
});

test('the total time ends a source that trickles; it is named, tried again, and read when it is well', async () => {
  await using server = await startServer();
  await using client = await startClient({
    serverUrl: server.url,
    env: { ...PATIENT, SYNC_HTTP_FETCHER_TIMEOUT: '60', SYNC_FETCH_TOTAL_TIMEOUT: '0.7' },
  });
  await client.tells('it is connected', (health) => field(health, 'server', 'connected') === true);
  await using bad = await trickleSource('trickle');
  await publish(server.url, { url: `${bad.url}/doc`, dst_path: '/doc' });
  await client.tells('it is failing', (health) => failing(health).some((line) => line.includes('/doc')));
  assert(
    client.log.some(({ error }) => /was not read within 0\.7 s/.test(String(error))),
    'the log says why',
  );
  await until(() => bad.count > 1, { withinMs: 20_000, what: 'it is tried again' });
  bad.heal();
  await client.holds('/doc', [1]);
});
