import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Route } from 'playwright-core';
import { documentsAnswer } from '../../src/wire/fleet-views.js';
import { until } from '../support/until.js';
import { builtPage } from './support/built-page.js';
import { beginScene, leaveScene, SIZE } from './support/fixture-pages.js';
import { type FixtureServer, startFixture } from './support/fixture-server.js';
import { DATA_HEAD, HEAD, NOT_SERVED } from './support/sample-fleet.js';
import type { ScenarioName } from './support/scenarios.js';
import { IN_PAGE_MS, NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/** What the pages of changes, data, policy and instances do, by what is seen and what is asked of the server. */

async function soon(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  await until(condition, { withinMs: IN_PAGE_MS, what });
}

describe('pages beside the fleet', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  let server: FixtureServer;
  let watched: WatchedPage;
  before(async () => {
    server = await startFixture(await builtPage(), 'converging');
    watched = await browser.open(`${server.url}/ui/session`);
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  /** One page after the other, each as if it were the first. `expects` are problems that the test provokes. */
  async function open(
    scenario: ScenarioName,
    at: string,
    { expects = [] }: { expects?: readonly string[] } = {},
  ): Promise<{ server: FixtureServer; watched: WatchedPage } & AsyncDisposable> {
    const { page } = watched;
    const known = watched.problems().length;
    await beginScene({ server, page }, scenario, at);
    const problems = (): string[] =>
      watched
        .problems()
        .slice(known)
        .filter((text) => !expects.some((part) => text.includes(part)));
    return {
      server,
      watched: { ...watched, problems },
      async [Symbol.asyncDispose]() {
        await page.unrouteAll();
        await leaveScene({ server, page });
        await page.setViewportSize(SIZE);
      },
    };
  }
  const hash = async ({ page }: WatchedPage): Promise<string> => String(await page.evaluate('location.hash'));

  it('changes: a filter and a search stand in the address, and keys go from one to the next', async () => {
    await using opened = await open('converging', '#/changes');
    const { page } = opened.watched;
    const rows = page.locator('main li a[href^="#/changes/"]');
    await rows.first().waitFor();
    const all = await rows.count();
    await rows.getByText(/a rule stands at this path · 1.client$/).waitFor();
    await page.getByRole('link', { name: 'With errors' }).click();
    await page.getByText('Not served').first().waitFor();
    const bad = await rows.count();
    assert(bad > 0 && bad < all, `${bad} of ${all}`);
    await page.getByRole('searchbox').fill('send.rego:14');
    await soon(async () => (await rows.count()) === 1, 'the search finds one change');
    assert.equal(await hash(opened.watched), '#/changes?kind=refused&q=send.rego:14');
    await page.getByRole('searchbox').fill('nothing is called so');
    await page.getByRole('button', { name: 'Clear the search' }).click();
    await soon(async () => (await rows.count()) === all, 'all changes are back');
    await rows.first().focus();
    await page.keyboard.press('j');
    const focused = String(await page.evaluate('document.activeElement.getAttribute("href")'));
    assert.equal(focused, await rows.nth(1).getAttribute('href'));
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('changes: what the stream pushes out stays, and older ones come when they are asked for', async () => {
    await using opened = await open('converging', '#/changes');
    const { server, watched } = opened;
    const rows = watched.page.locator('main li a[href^="#/changes/"]');
    await rows.first().waitFor();
    const before = await rows.count();
    const [newest] = server.fleet()?.changes ?? [];
    assert(newest !== undefined);
    const at = Date.now();
    const more = Array.from({ length: 45 }, (_, index) => ({
      ...newest,
      kind: 'data' as const,
      id: String(90_000 + index),
      at: at + index,
      state: 'served',
    }));
    server.tell({ at, changes: more });
    await soon(async () => (await rows.count()) === before + 45, 'new changes stand above the others');
    await watched.page.getByRole('button', { name: 'Older changes' }).click();
    await watched.page.getByText('these are all that the log still has').waitFor();
    assert.equal(await rows.count(), before + 45);
    assert.deepEqual(watched.problems(), []);
  });

  it('a change: of 3,000 clients 50 have a row, worst first, by page and by state', async () => {
    await using opened = await open('many', `#/changes/${HEAD}`);
    const { page } = opened.watched;
    const rows = page.locator('.waterfall li');
    await rows.first().waitFor();
    assert.equal(await rows.count(), 50);
    assert.match((await rows.first().textContent()) ?? '', /Refused/);
    await page.getByRole('link', { name: 'Better' }).click();
    await soon(
      async () => /51 to 100 of 3,000/.test((await page.locator('.paging').textContent()) ?? ''),
      'the second page',
    );
    await page.getByRole('link', { name: /^Away/ }).click();
    await soon(async () => /Away/.test((await rows.first().textContent()) ?? ''), 'clients that are away');
    assert.match(await hash(opened.watched), /\?state=away$/);
    assert(await page.getByRole('img', { name: /1,500 of 2,977 clients hold the change/ }).isVisible());
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('a change: is asked for again when the stream says that it moved, at most once a second', async () => {
    await using opened = await open('converging', `#/changes/${HEAD}`);
    const { server, watched } = opened;
    await watched.page.locator('.waterfall li').first().waitFor();
    const traces = (): number => server.asked.filter((path) => path.startsWith('GET /trace/')).length;
    const change = server.fleet()?.changes[0];
    assert(change !== undefined);
    const [beganMs, before] = [performance.now(), traces()];
    for (let applied = 62; applied < 80; applied++) {
      const counts = { ...change.counts, applied };
      server.tell({ at: Date.now(), changes: [{ ...change, counts }] });
      await watched.settled();
    }
    await soon(() => traces() > before, 'the trace is asked for again');
    await soon(async () => (await watched.page.getByText('Acknowledged 79').count()) === 1, 'the last counts');
    const seconds = (performance.now() - beganMs) / 1000;
    assert(traces() - before <= Math.ceil(seconds) + 1, `${traces() - before} requests in ${seconds.toFixed(1)} s`);
    assert.deepEqual(watched.problems(), []);
  });

  it('a change: that it moved while it was asked for the first time is not lost', async () => {
    await using opened = await open('converging', '#/changes');
    const { server, watched } = opened;
    const { page } = watched;
    const change = server.fleet()?.changes[0];
    assert(change !== undefined);
    const row = page.locator(`main a[href="#/changes/${HEAD}"]`);
    await row.waitFor();
    let answer = (): void => undefined;
    const isTold = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const hold = async (route: Route): Promise<void> => {
      const response = await route.fetch();
      await isTold;
      await route.fulfill({ response });
    };
    await page.route('**/trace/*', hold, { times: 1 });
    await row.click();
    await soon(() => server.asked.some((path) => path.startsWith('GET /trace/')), 'the first question');
    const summary = server.fleet()?.summary;
    assert(summary !== undefined);
    server.tell({
      at: Date.now(),
      summary: { ...summary, policy: { ...summary.policy, counts: { acknowledged: 79, told: 43 } } },
      changes: [{ ...change, counts: { ...change.counts, applied: 79 } }],
    });
    await page.locator('.strip').getByText('79 of 122').waitFor();
    answer();
    await page.getByText('Acknowledged 79').waitFor();
    assert.deepEqual(watched.problems(), []);
  });

  it('a change: one that the server refused says where and why; one that nobody knows says so', async () => {
    await using opened = await open('converging', `#/changes/${NOT_SERVED}`, { expects: ['404'] });
    const { page } = opened.watched;
    await page.getByText('The server refused this commit and announced nothing.').waitFor();
    assert.match((await page.locator('.err header').textContent()) ?? '', /send\.rego:14\s*rego_parse_error/);
    await page.goto(`${opened.server.url}/ui#/changes/99999999`);
    await page.getByRole('heading', { name: 'No such change' }).waitFor();
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('policy: a banner leads to no page that one is on, and the heads of files are words', async () => {
    await using opened = await open('refused', '#/policy?tab=files');
    const { page } = opened.watched;
    const banner = page.locator('.banner').filter({ hasText: 'refused the newest commit' });
    await banner.waitFor();
    const link = banner.getByRole('link', { name: 'Policy' });
    assert.equal(await link.count(), 0);
    const heads = page.locator('table.files thead th');
    await heads.first().waitFor();
    assert.deepEqual(await heads.allTextContents(), ['Order', 'File', 'Package or path', 'Size', 'Note']);
    await page.getByRole('link', { name: 'Data', exact: true }).click();
    await link.waitFor();
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('data: keys go through the tree, fold it, and choose', async () => {
    await using opened = await open('converging', '#/data');
    const { page } = opened.watched;
    const chosen = page.locator('tr[aria-selected="true"]');
    await page.locator('tr[tabindex="0"]').focus();
    await page.keyboard.press('ArrowRight');
    await soon(async () => (await hash(opened.watched)) === '#/data?path=/accounts/regions', 'the first child');
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    await soon(async () => (await chosen.getAttribute('aria-expanded')) === 'false', 'the parent is closed');
    await page.keyboard.press('End');
    await soon(async () => (await chosen.getAttribute('aria-level')) === '2', 'the last document');
    await page.getByRole('searchbox').fill('topic:limits -stock');
    await soon(async () => (await page.locator('tr[aria-level]').count()) === 4, 'what the search finds');
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('data: the history of a document goes on with it', async () => {
    await using opened = await open('converging', '#/fleet');
    const { server, watched } = opened;
    const { page } = watched;
    let later = 0;
    await page.route('**/data/documents?*', async (route) => {
      const response = await route.fetch();
      const answer = documentsAnswer.parse(await response.json());
      const documents = answer.documents.map((one) => ({ ...one, seq: one.seq + later }));
      await route.fulfill({ response, json: { ...answer, documents } });
    });
    await page.goto(`${server.url}/ui#/data?path=/limits/orders`);
    const asked = (): number => server.asked.filter((path) => path.startsWith('GET /changes?path=')).length;
    await soon(() => asked() === 1, 'the history');
    later = 1;
    server.tell({ at: Date.now(), head: DATA_HEAD + 1 });
    await soon(() => asked() === 2, 'the history once more');
    assert.deepEqual(watched.problems(), []);
  });

  it('data: what keeps clients from writing a document is told as the worst of them says it', async () => {
    await using opened = await open('converging', '#/data?path=/limits/orders');
    const banner = opened.watched.page.locator('aside .banner');
    await banner.waitFor();
    assert.match(
      (await banner.textContent()) ?? '',
      /3.clients cannot write it: the engine refuses it: a rule stands at this path \(2 of them\)/,
    );
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('data: a value is asked for only by those who may see it, and only when they ask', async () => {
    {
      await using reader = await open('listener', '#/data?path=/limits/mailer');
      const show = reader.watched.page.getByRole('button', { name: 'Show' });
      await show.waitFor();
      assert.equal(await show.getAttribute('title'), 'Needs a token of the kind datasource');
      await show.click({ force: true });
      await reader.watched.settled();
      assert(!reader.server.asked.some((path) => path.startsWith('GET /data/log')));
      assert.deepEqual(reader.watched.problems(), []);
    }

    await using writer = await open('converging', '#/data?path=/limits/mailer');
    const { page } = writer.watched;
    const secrets = (): string[] => writer.server.asked.filter((path) => path.includes('secrets'));
    await page.getByText('Hidden. Showing it is recorded.').waitFor();
    assert.deepEqual(secrets(), []);
    await page.getByRole('button', { name: 'Show' }).click();
    await page.getByText('12345678901234567890').waitFor();
    assert.match(secrets().join(), /path=%2Flimits%2Fmailer&before=\d+&limit=1&include=secrets/);
    await page.getByRole('button', { name: 'Hide' }).click();
    assert.equal(await page.getByText('12345678901234567890').count(), 0);
    assert.deepEqual(writer.watched.problems(), []);
  });

  it('policy: two commits are chosen in the address; a listener cannot have the server look', async () => {
    await using opened = await open('listener', '#/policy');
    const { page } = opened.watched;
    await page.getByLabel('From commit').selectOption({ index: 2 });
    await soon(() => opened.server.asked.some((path) => /^GET \/policy\/diff\?from=\w+&to=\w+$/.test(path)), 'a diff');
    assert.match(await hash(opened.watched), /^#\/policy\?from=\w{40}&to=\w{40}$/);
    await page.getByRole('link', { name: 'Files', exact: true }).click();
    await page.getByText('policy/orders/data.json replaces it').first().waitFor();
    const look = page.getByRole('button', { name: 'Look now' });
    await look.click({ force: true });
    await opened.watched.settled();
    assert.equal(await look.getAttribute('aria-disabled'), 'true');
    assert(!opened.server.asked.some((path) => path.startsWith('POST /policy')));
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('policy: a commit of which no time is known has none', async () => {
    await using opened = await open('converging', '#/policy');
    const last = opened.watched.page.locator('.commits li').last();
    await last.getByText('–').waitFor();
    assert.equal(await last.locator('time').count(), 0);
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('what could not be read is read again when the stream is back', async () => {
    await using opened = await open('converging', '#/fleet', { expects: ['503', 'ERR_'] });
    const { server, watched } = opened;
    const { page } = watched;
    await page.route('**/policy/diff?*', (route) => route.abort(), { times: 1 });
    await page.goto(`${server.url}/ui#/policy`);
    await page.getByRole('button', { name: 'Look now' }).waitFor();
    await page.getByText('The difference is not here.').waitFor();
    const looks = (): number => server.asked.filter((path) => path === 'GET /policy/source').length;
    const before = looks();
    server.cut();
    await page.getByText('The stream is cut.').waitFor();
    server.restore();
    await page.getByText('The stream is cut.').waitFor({ state: 'detached' });
    await soon(() => looks() > before, 'the source is asked for again');
    await page.getByText('The difference is not here.').waitFor({ state: 'detached' });
    assert.deepEqual(watched.problems(), []);
  });

  it('instances: a limited token is told that the last hour is not shown, and sees neither zeros nor charts', async () => {
    await using opened = await open('limited', '#/instances');
    const { page } = opened.watched;
    await page.getByText('Not shown to a limited token').waitFor();
    assert.equal(await page.getByText(/nothing published|0 publishes|nothing applied/).count(), 0);
    assert.equal(await page.locator('figure').count(), 0);
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('instances: charts have their figures as text, and are drawn anew for another theme and width', async () => {
    await using opened = await open('converging', '#/instances');
    const { page } = opened.watched;
    const canvases = page.locator('figure canvas');
    await canvases.nth(3).waitFor();
    assert.equal(await canvases.count(), 4);
    assert.match(
      (await page.locator('figcaption').nth(3).textContent()) ?? '',
      /policysync-1: \d+ now, at most \d+ at \d\d:\d\d/,
    );
    const picture = async (): Promise<string> =>
      String(await page.evaluate('document.querySelector("figure canvas").toDataURL()'));
    const light = await picture();
    await page.keyboard.press('t');
    await soon(async () => (await picture()) !== light, 'other colours');
    await page.setViewportSize({ width: 700, height: 900 });
    await soon(
      async () => Number(await page.evaluate('document.querySelector("figure canvas").clientWidth')) === 668,
      'the chart is as wide as there is room',
    );
    assert.equal(await canvases.count(), 4);
    assert.deepEqual(opened.watched.problems(), []);
  });

  it('instances: a chart has room for what stands at its axis, however wide the letters are', async () => {
    server.become('converging');
    await using wide = await browser.open(`${server.url}/ui#/instances`, { letters: 'widest' });
    const { page } = wide;
    await page.locator('figure canvas').nth(3).waitFor();
    const atTheEdge = `[...document.querySelectorAll('figure canvas')].map((canvas) =>
      canvas.getContext('2d').getImageData(0, 0, 1, canvas.height).data.filter((_, index) => index % 4 === 3).some(Boolean))`;
    assert.deepEqual(await page.evaluate(atTheEdge), [false, false, false, false]);
    assert.deepEqual(wide.problems(), []);
  });
});
