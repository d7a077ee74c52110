import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { builtPage } from './support/built-page.js';
import { type FixtureServer, startFixture } from './support/fixture-server.js';
import { listFigures, markedRows, markRows, pageUse, scrollFrames, watchRows } from './support/in-page.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/**
 * What keeps 3,000 clients quick, told by what the page does and not by how long this machine takes for it; `npm run bench -- ui-rows`
 * measures times.
 */

/** Elements for rows beyond those that are seen. */
const SPARE = 12;
const CLIENTS = 3000;
const DAY_MS = 86_400_000;

describe('the list of 3,000 clients', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  let server: FixtureServer;
  let watched: WatchedPage;

  before(async () => {
    server = await startFixture(await builtPage(), 'many');
    watched = await browser.open(`${server.url}/ui`, { height: 900 });
    await watched.page.getByRole('row').nth(10).waitFor();
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  it('has an element for each row that is seen and a few more, wherever it is, at any width, with groups and without', async () => {
    const { page } = watched;
    for (const [width, height] of [
      [1440, 900],
      [800, 1200],
      [360, 740],
    ] as const) {
      await page.setViewportSize({ width, height });
      for (const place of ['0', '20000', 'document.documentElement.scrollHeight']) {
        await page.evaluate(`scrollTo(0, ${place})`);
        await watched.settled();
        const { elements, shown, seen } = await listFigures(page);
        const where = `${width} px at ${place}: ${elements} elements, ${shown} shown, ${seen} seen`;
        assert(seen > 0 && shown >= seen, where);
        assert(elements <= Math.ceil(height / (width < 720 ? 60 : 36)) + SPARE, where);
      }
    }
    await page.setViewportSize({ width: 1440, height: 900 });
  });

  it('keeps its elements while it scrolls and is updated: each shows one client after the other', async () => {
    const { page } = watched;
    await page.evaluate('scrollTo(0, 0)');
    await watched.settled();
    const { nodes } = await listFigures(page);
    await markRows(page);
    const told = server.asked.length;
    await scrollFrames(page, { px: 420, count: 60 });
    const { marked, fresh } = await markedRows(page);
    assert.equal(fresh, 0, `${fresh} new elements beside ${marked}`);
    const after = (await listFigures(page)).nodes;
    assert(after <= nodes * 1.1 + 50, `${nodes} nodes before, ${after} after`);
    assert.equal(server.asked.length, told, 'it asks the server for nothing as it scrolls');
  });

  it('shows the clients in their order after a jump, the last one at the end', async () => {
    const { page } = watched;
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
    await watched.settled();
    const last = page.locator(`[role=row][aria-rowindex="${CLIENTS + 1}"]`);
    await last.waitFor();
    const box = await last.boundingBox();
    assert(box !== null && box.y < 900, JSON.stringify(box));
    const grid = page.getByRole('grid');
    assert.equal(await grid.getAttribute('aria-rowcount'), String(CLIENTS + 1));
  });

  it('touches a row whose text changes, and no other, however many are told anew', async () => {
    await using calm = await startFixture(await builtPage(), 'converged');
    await using use = await browser.open(`${calm.url}/ui`);
    const { page } = use;
    const snapshot = calm.fleet();
    assert(snapshot !== null);
    // Ages in days: none of them changes by itself amid this.
    const at = snapshot.at - 5.5 * DAY_MS;
    const rows = snapshot.clients.map((row) => ({ ...row, policy: { ...row.policy, since: at } }));
    await page.getByRole('row').nth(10).waitFor();
    calm.tell({ at: Date.now(), clients: rows });
    const third = page.getByRole('row').nth(3);
    await third.getByText('5 d', { exact: true }).waitFor();
    await third.hover(); // the order stays as it is while the pointer is in the list
    const id = await third.getAttribute('data-id');
    const changed = rows.find((row) => row.id === id);
    assert(changed !== undefined, String(id));

    const touched = await watchRows(page);
    calm.tell({ at: Date.now(), clients: rows.map((row) => ({ ...row, reported_at: Date.now() })) });
    calm.tell({
      at: Date.now(),
      clients: [{ ...changed, data: { ...changed.data, at: changed.data.newest - 7, state: 'behind', behind: 7 } }],
    });
    await third.getByText('7 behind', { exact: true }).waitFor();
    assert.deepEqual((await touched()).rows, [id]);
  });

  it('does not grow: after hundreds of updates the living objects of the page are as many as before', async (t) => {
    const { page } = watched;
    const uses = await pageUse(page);
    const fleet = server.fleet();
    assert(fleet !== null);
    const rounds = async (count: number): Promise<void> => {
      for (let round = 1; round <= count; round++) {
        const clients = fleet.clients.slice(0, 300).map((row) => ({ ...row, reported_at: Date.now() + round }));
        server.tell({ at: Date.now(), clients });
        if (round % 20 === 0) await watched.settled();
      }
      await watched.settled();
    };
    await rounds(60);
    const first = await uses.heapBytes();
    await rounds(300);
    const last = await uses.heapBytes();
    t.diagnostic(`heap after 60 updates ${(first / 1e6).toFixed(1)} MB, after 360 ${(last / 1e6).toFixed(1)} MB`);
    assert(last < first * 1.15 + 1e6, `${first} bytes, then ${last}`);
  });

  it('says nothing in the console all the while', () => {
    assert.deepEqual(watched.problems(), []);
  });
});
