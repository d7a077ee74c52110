import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { type BackboneServer, backboneOffer } from '../support/backbone-servers.js';
import { bareClient } from '../support/bare-client.js';
import { postJson } from '../support/http.js';
import { type Instance, startInstance } from '../support/instance.js';
import { until } from '../support/until.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/** The page of real servers, each in a process of its own, that share a log in Redis. */

const WITHIN = { withinMs: 60_000 };
const TOPIC = 'policy_data';
const SERVERS = 3;
const offer = await backboneOffer('Redis');

describe('Instances, of three servers', { skip: NO_BROWSER || (offer.missing ?? false) }, () => {
  const browser = testBrowser();
  let backbone: BackboneServer;
  let servers: Instance[] = [];
  let watched: WatchedPage;
  let page: Page;

  before(async () => {
    backbone = await offer.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri, SYNC_HEARTBEAT_INTERVAL: '1' };
    for (let count = 0; count < SERVERS; count += 1) servers = [...servers, await startInstance(env)];
    watched = await browser.open(`${servers[0]?.url}/ui#/instances`);
    ({ page } = watched);
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    for (const server of servers) await server[Symbol.asyncDispose]();
    await backbone?.[Symbol.asyncDispose]();
  });

  /** The cells of each row, with plain spaces. */
  async function rows(): Promise<string[][]> {
    const found = await page.locator('table.instances tbody tr').all();
    const texts = await Promise.all(found.map((row) => row.locator('td').allTextContents()));
    return texts.map((cells) => cells.map((cell) => cell.replaceAll('\u00a0', ' ').trim()));
  }
  async function shows(what: string, check: (cells: string[][]) => boolean): Promise<string[][]> {
    let last: string[][] = [];
    return await until(
      async () => {
        last = await rows();
        return check(last) && last;
      },
      { ...WITHIN, what },
    ).catch((cause: unknown) => {
      throw new Error(`${what}: ${JSON.stringify(last)}`, { cause });
    });
  }

  it('each has a row with its clients and its place in the log, and the hour names all of them', async () => {
    await using one = bareClient('one', [TOPIC]);
    await using two = bareClient('two', [TOPIC]);
    await one.connect(servers[1]?.url ?? '');
    await two.connect(servers[2]?.url ?? '');
    for (const { url } of servers) {
      const entries = [{ url: '', topics: [TOPIC], dst_path: '/a', data: url }];
      assert.equal((await postJson(`${url}/data/config`, { entries })).status, 200);
    }
    const all = await shows(
      'three servers in step, with two clients, and their round trips to the backbone',
      (cells) => {
        const clients = cells.map(([, , count]) => count);
        const isWhole = cells.every(([, state, , at, behind]) => state === 'In step' && at === '3' && behind === '0');
        const isMeasured = cells.every(([, , , , , trip = '']) => trip.endsWith(' ms'));
        return cells.length === SERVERS && isWhole && isMeasured && clients.sort().join() === '0,1,1';
      },
    );
    assert.match(all[0]?.[0] ?? '', /this page/);
    await page.getByText(`${SERVERS} servers, backbone redis`).waitFor();
    // Of its own at once; the others tell a minute when it is over.
    await page.getByText(/\d.publish(es)?, 0.refused/).waitFor();
    const deliveries = page.locator('figure').filter({ hasText: 'Deliveries' });
    await until(
      async () => {
        const text = (await deliveries.textContent()) ?? '';
        return all.every(([name = '']) => text.includes(name.replace(' this page', '')));
      },
      { ...WITHIN, what: 'the chart names each server' },
    );
    assert.equal(await page.locator('figure').count(), 4);
    assert.deepEqual(watched.problems(), []);
  });

  it('one that is killed is silent, and the page says that its clients may be missing', async () => {
    await servers[2]?.kill();
    await shows('one of three is silent', (cells) => {
      const states = cells.map(([, state = '']) => state.replace(/ for .*/, ''));
      return states.sort().join() === 'In step,In step,Silent';
    });
    const banner = page.locator('.banner').filter({ hasText: 'There may be more clients than these.' });
    await banner.waitFor();
    assert.equal(await banner.getByRole('link').count(), 0, 'one is on the page that has the rest');
    assert.deepEqual(watched.problems(), []);
  });
});
