import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { fleetSummary } from '../support/fleet-summary.js';
import { until } from '../support/until.js';
import { builtPage } from './support/built-page.js';
import { type FixtureServer, startFixture, TOKENS } from './support/fixture-server.js';
import { showTab, watchBody } from './support/in-page.js';
import { SCENARIOS, type ScenarioName } from './support/scenarios.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/** What stands around every page: the answer, how the stream stands, who is signed in. */

const WAIT = { withinMs: 20_000 };

describe('the frame of the page', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  let folder: string;
  before(async () => {
    folder = await builtPage();
  });
  after(() => browser[Symbol.asyncDispose]());

  async function open(
    scenario: ScenarioName,
    at = '#/fleet',
    expects: readonly string[] = [],
  ): Promise<{ server: FixtureServer; watched: WatchedPage; page: Page } & AsyncDisposable> {
    const server = await startFixture(folder, scenario);
    const watched = await browser.open(`${server.url}/ui${at}`, { expects });
    return {
      ...{ server, watched, page: watched.page },
      async [Symbol.asyncDispose]() {
        await watched[Symbol.asyncDispose]();
        await server[Symbol.asyncDispose]();
      },
    };
  }
  const answer = (page: Page) => page.locator('h1.answer');

  it('answers in the first line, in the title of the tab, and on every other page in a strip', async () => {
    await using at = await open('converging');
    const { page } = at;
    await answer(page)
      .getByText(/^Not yet: 61 of 122 hold/)
      .waitFor();
    assert.match(await page.title(), /^61\/122 [0-9a-f]{7}$/);
    await page.getByRole('link', { name: 'Instances' }).first().click();
    await page.locator('.strip').getByText('Not yet: 61 of 122 hold').waitFor();
    await until(async () => /^61\/122 [0-9a-f]{7} · Instances$/.test(await page.title()), {
      ...WAIT,
      what: 'the title',
    });
    await page.locator('.strip').click();
    await answer(page).waitFor();
    assert.equal(await page.locator('.strip').count(), 0);
    assert.deepEqual(at.watched.problems(), []);
  });

  it('a stream that is cut says what was, since when and what next; back again it says what is, nothing twice', async () => {
    await using at = await open('converging', '#/fleet', ['503', 'ERR_']);
    const { page, server } = at;
    await answer(page)
      .getByText(/^Not yet:/)
      .waitFor();
    server.cut();
    await answer(page)
      .getByText(/^At \d\d:\d\d:\d\d, 61 of 122 held/)
      .waitFor();
    await page.getByRole('alert').getByText('The stream is cut.').waitFor();
    assert.match(String(await page.locator('.banner').textContent()), /What you see is of \d\d:\d\d:\d\d, .* ago\./);
    assert.equal((await page.getByRole('alert').textContent())?.trim(), 'The stream is cut.', 'no time is read out');
    assert.match(await page.title(), /^cut · 61\/122/);
    const grey = await page.evaluate(`getComputedStyle(document.querySelector('.hero').parentElement).filter`);
    assert.equal(grey, 'grayscale(1)');
    server.restore();
    await page.getByRole('button', { name: 'Try now' }).click();
    await answer(page)
      .getByText(/^Not yet: 61 of 122 hold/)
      .waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
    const rows = await page.getByRole('grid').getAttribute('aria-rowcount');
    assert.equal(rows, '123');
    assert.deepEqual(at.watched.problems(), []);
  });

  it('a hidden tab draws nothing but its title, and is right when it is seen again', async () => {
    await using at = await open('converging');
    const { page, server } = at;
    await answer(page)
      .getByText(/^Not yet: 61 of 122 hold/)
      .waitFor();
    await showTab(page, false);
    await at.watched.settled();
    const changes = await watchBody(page);
    const { summary } = server.fleet() ?? {};
    assert(summary);
    for (let held = 70; held <= 72; held += 1) {
      const policy = { ...summary.policy, counts: { acknowledged: held, told: 122 - held } };
      server.tell({ at: Date.now(), summary: { ...summary, policy } });
      await until(async () => (await page.title()).startsWith(`${held}/122`), { ...WAIT, what: 'the title has it' });
    }
    // What is drawn by itself each second, and the running time, would be by then.
    await page.evaluate('new Promise((done) => setTimeout(done, 1200))');
    assert.deepEqual(await changes(), []);
    const whole = SCENARIOS.converged.snapshot(Date.now());
    assert(whole);
    server.tell({ at: Date.now(), summary: whole.summary, clients: whole.clients, changes: whole.changes });
    await until(async () => (await page.title()).startsWith('122/122'), { ...WAIT, what: 'the title has all' });
    assert.deepEqual(await changes(), []);
    await showTab(page, true);
    await answer(page)
      .getByText(/^Yes: all 122 hold/)
      .waitFor();
    assert.equal(await page.getByRole('row').filter({ hasText: 'Not told' }).count(), 0);
    assert.deepEqual(at.watched.problems(), []);
  });

  it('says half and rest to those who listen, and not each step', async () => {
    await using at = await open('converging');
    const { page, server } = at;
    await answer(page).waitFor();
    const heard = page.locator('[aria-live=polite]');
    const tell = async (acknowledged: number, told: number, shows: RegExp): Promise<string | null> => {
      const policy = { head: 'c0ffee0c0ffee0', counts: { acknowledged, told } };
      server.tell({ at: Date.now(), summary: fleetSummary({ policy, data: { head: 0, counts: {} } }) });
      await answer(page).getByText(shows).waitFor();
      return heard.textContent();
    };
    assert.equal(await tell(0, 8, /0 of 8/), 'Commit c0ffee0 is served: 0 of 8 hold it');
    assert.equal(await tell(1, 7, /1 of 8/), 'Commit c0ffee0 is served: 0 of 8 hold it');
    assert.equal(await tell(4, 4, /4 of 8/), 'Half hold c0ffee0: 4 of 8');
    assert.equal(await tell(7, 1, /7 of 8/), 'Half hold c0ffee0: 4 of 8');
    assert.equal(await tell(8, 0, /all 8/), 'Yes: all 8 hold c0ffee0 · no data update yet');
  });

  it('says above the answer what limits it: what is wrong, since when, what next', async () => {
    await using at = await open('converged');
    const { page, server } = at;
    await answer(page).waitFor();
    const banner = page.locator('.banner');
    assert.equal(await banner.count(), 0, 'good is quiet');
    const fleet = server.fleet();
    assert(fleet !== null);
    const { head } = fleet.summary.policy;
    const short = head?.slice(0, 7);
    const says = async (text: RegExp): Promise<void> => {
      await until(async () => text.test((await banner.allTextContents()).join('\n')), { ...WAIT, what: String(text) });
    };
    const failing_since = new Date(Date.now() - 60_000).toISOString();
    server.tell({ at: Date.now(), source: { state: 'failing', head, error: 'no route to the host', failing_since } });
    await says(
      /fails\. Since \d\d:\d\d:\d\d.UTC: no route to the host\. Clients keep [0-9a-f]{7}\. The server goes on/,
    );
    server.tell({ at: Date.now(), source: { state: 'starting', error: 'there is no branch x', failing_since } });
    await says(/fails\. Since \d\d:\d\d:\d\d.UTC: there is no branch x\. No policy is served\. The server goes on/);
    server.tell({
      at: Date.now(),
      source: { state: 'following', head, refused: 'badc0de11', error: 'a.rego:3: unsafe' },
    });
    await says(
      new RegExp(`refused the newest commit\\. badc0de is not served: a\\.rego:3: unsafe\\. Clients keep ${short}`),
    );
    const problems = [
      { message: 'does not compile: unsafe', file: 'a.rego', line: 3 },
      { message: 'does not compile: undefined function f', file: 'b.rego', line: 4 },
      { message: 'is too much' },
    ];
    const error = 'commit badc0de11: a.rego:3 does not compile: unsafe (and 2 more)';
    server.tell({ at: Date.now(), source: { state: 'following', head, refused: 'badc0de11', error, problems } });
    await says(
      /unsafe \(and 2 more\)\. Also b\.rego:4 does not compile: undefined function f; is too much\. Clients keep/,
    );
    await answer(page)
      .getByText(/^All .* hold [0-9a-f]{7}, but badc0de is not served/)
      .waitFor();
    assert.match(await page.title(), /^refused · \d+\/\d+ [0-9a-f]{7}$/);
    server.tell({ at: Date.now(), source: { state: 'following', head, doubted: '01dc0de11' } });
    await says(/may show an older commit\. It shows 01dc0de/);
    const awaited = { commit: '0ff1ce011', since: new Date(Date.now() - 9_000).toISOString() };
    server.tell({ at: Date.now(), source: { state: 'following', head, awaited } });
    await says(
      /has not come\. A webhook named 0ff1ce0 at \d\d:\d\d:\d\d.UTC, and .* does not show it\. The server asks again/,
    );
    const given_up = new Date().toISOString();
    server.tell({ at: Date.now(), source: { state: 'following', head, awaited: { ...awaited, given_up } } });
    await says(/If no later push replaced it, send the webhook again/);
    const fetching_since = new Date(Date.now() - 9_000).toISOString();
    server.tell({ at: Date.now(), source: { state: 'following', head, fetching_since } });
    await says(/takes long to answer\. No answer since \d\d:\d\d:\d\d.UTC: there may be a newer commit/);
    server.tell({ at: Date.now(), source: { state: 'following', head } });
    await until(async () => (await banner.count()) === 0, { ...WAIT, what: 'no banner' });
    const full = fleet.instances.map((one) => ({ ...one, state: 'refuses_updates' }));
    server.tell({ at: Date.now(), instances: full });
    await says(/Updates are refused\..* cannot write the update log: publishes get 507\. Clients keep what they hold/);
    server.tell({ at: Date.now(), instances: fleet.instances });
    await until(async () => (await banner.count()) === 0, { ...WAIT, what: 'no banner again' });
    server.tell({ at: Date.now(), instances: fleet.instances.map((one) => ({ ...one, version: '99.0.0' })) });
    await says(/has another version by now\. This page is of .*, the server of 99\.0\.0\./);
    assert.deepEqual(at.watched.problems(), []);
  });

  it('a session that ends soon is told once, and the time beside it', async () => {
    await using at = await open('expiring');
    const banner = at.page.locator('.banner');
    await banner.getByText(/It ends in \d+.(s|min)\./).waitFor();
    assert.equal(
      await banner.getByRole('status').textContent(),
      'Your session ends soon. Sign in with a token that ends later.',
    );
    assert.deepEqual(at.watched.problems(), []);
  });

  it('a legend filters the list by its state, and takes the filter away', async () => {
    await using at = await open('converging', '#/fleet?group=app');
    const { page } = at;
    const refused = page.getByRole('list', { name: 'Clients by policy' }).getByRole('link', { name: /Refused/ });
    await refused.click();
    assert.match(page.url(), /#\/fleet\?group=app&q=state:refused$/);
    await refused.click();
    assert.match(page.url(), /#\/fleet\?group=app$/);
  });

  it('signs in: each token that is of no use has its reason, a good one leads to where the link led', async () => {
    await using at = await open('signed-out', '#/instances', ['401', '403']);
    const { page, server } = at;
    const field = page.getByLabel('Token');
    const signIn = page.getByRole('button', { name: 'Sign in' });
    await field.waitFor();
    assert.equal(await page.title(), 'production · Sign in · PolicySync');
    assert.equal(await page.locator('.brand').textContent(), 'PolicySync production');
    for (const [token, reason] of [
      ['', /Paste a token first/],
      ['nonsense', /not valid/],
      [TOKENS.client, /kind client/],
    ] as const) {
      await field.fill(token);
      await signIn.click();
      await page.getByRole('alert').getByText(reason).waitFor();
      assert.equal(await field.getAttribute('aria-invalid'), 'true');
    }
    await field.fill(TOKENS.listener);
    await field.press('Enter');
    await page.getByRole('heading', { name: 'Instances' }).waitFor();
    assert.match(page.url(), /#\/instances$/);
    assert.deepEqual(server.posted.at(-1), { token: TOKENS.listener });
    assert.equal(await page.getByRole('banner').locator('.brand').textContent(), 'PolicySync production');
    const title = /^61\/122 [0-9a-f]{7} · production · Instances$/;
    await until(async () => title.test(await page.title()), { ...WAIT, what: 'the title has the first snapshot' });
    assert.deepEqual(at.watched.problems(), []);
  });

  it('a session that ends leads to signing in, with the reason, and back to where one was', async () => {
    await using at = await open('listener', '#/changes', ['401']);
    const { page, server } = at;
    await page.locator('.strip').waitFor();
    server.expire();
    await page.getByText('Your session has ended.').waitFor();
    assert.equal(await page.getByRole('navigation').count(), 0, 'nothing of the fleet is left');
    await page.getByLabel('Token').fill(TOKENS.datasource);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Changes' }).waitFor();
    await page.getByRole('button', { name: /datasource/ }).click();
    await page.getByText('You are signed out.').waitFor();
    assert.deepEqual(at.watched.problems(), []);
  });

  it('follows the theme of the system until it is switched', async () => {
    await using at = await open('converged');
    const { page } = at;
    const theme = (): Promise<unknown> => page.evaluate('document.documentElement.dataset.theme');
    await answer(page).waitFor();
    await page.emulateMedia({ colorScheme: 'dark' });
    await until(async () => (await theme()) === 'dark', { ...WAIT, what: 'the dark theme' });
    await page.getByRole('button', { name: 'Light or dark' }).click();
    assert.equal(await theme(), 'light');
    await page.emulateMedia({ colorScheme: 'light' });
    await page.emulateMedia({ colorScheme: 'dark' });
    assert.equal(await theme(), 'light');
    await page.reload();
    await answer(page).waitFor();
    assert.equal(await theme(), 'light');
  });
});
