import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { FleetRow } from '../../src/wire/fleet.js';
import { until } from '../support/until.js';
import { builtPage } from './support/built-page.js';
import { leaveView } from './support/fixture-pages.js';
import { type FixtureServer, startFixture } from './support/fixture-server.js';
import type { ScenarioName } from './support/scenarios.js';
import { IN_PAGE_MS, NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/** The page of one client: what it holds, what fails and why, and what it can be asked to do. */

describe('the page of a client', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();

  interface Opened extends AsyncDisposable {
    readonly server: FixtureServer;
    readonly watched: WatchedPage;
    readonly row: FleetRow;
  }
  let server: FixtureServer;
  let watched: WatchedPage;
  before(async () => {
    server = await startFixture(await builtPage(), 'converging');
    watched = await browser.open(`${server.url}/ui`);
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });
  /** The page of the first client like this, in the page that these tests share, which they leave as it was. */
  async function look(isIt: (row: FleetRow) => boolean): Promise<Opened> {
    const row = server.fleet()?.clients.find(isIt);
    assert(row);
    await leaveView(watched.page);
    await watched.page.evaluate(`location.hash = ${JSON.stringify(`#/clients/${encodeURIComponent(row.id)}`)}`);
    await watched.page.getByRole('heading', { level: 1 }).filter({ hasText: row.id }).waitFor();
    return {
      ...{ server, watched, row },
      async [Symbol.asyncDispose]() {
        assert.deepEqual(watched.problems(), []);
      },
    };
  }
  /** The same in a page of its own. */
  async function open(scenario: ScenarioName, isIt: (row: FleetRow) => boolean): Promise<Opened> {
    const server = await startFixture(await builtPage(), scenario);
    const row = server.fleet()?.clients.find(isIt);
    assert(row);
    const watched = await browser.open(`${server.url}/ui#/clients/${encodeURIComponent(row.id)}`);
    await watched.page.getByRole('heading', { level: 1 }).filter({ hasText: row.id }).waitFor();
    return {
      ...{ server, watched, row },
      async [Symbol.asyncDispose]() {
        const problems = watched.problems();
        await watched[Symbol.asyncDispose]();
        await server[Symbol.asyncDispose]();
        assert.deepEqual(problems, []);
      },
    };
  }
  const isRefused = ({ policy }: FleetRow): boolean => policy.state === 'refused';

  it('shows an error with its source, what the engine does meanwhile, and who else has it', async () => {
    await using opened = await look(isRefused);
    const { page } = opened.watched;
    const error = page.getByRole('region', { name: 'Error' });
    await error.getByText('message := strings.render_template').waitFor();
    assert.match(
      (await error.textContent()) ?? '',
      /policy\/orders\/approval\.rego:27.*The engine goes on with [0-9a-f]{7}\./,
    );
    assert.match(
      (await error.textContent()) ?? '',
      /Only opa 0\.55\.0 refuses it: \d+ clients with other engines hold it/,
    );
    await error.getByRole('link', { name: /2.clients/ }).click();
    await page.getByText('2 of 122').waitFor();
  });

  it('has its labels as links to those who have them, too', async () => {
    await using opened = await look(isRefused);
    const { page } = opened.watched;
    const { app } = opened.row.labels;
    await page.getByRole('link', { name: `app=${app}` }).click();
    await page.getByRole('searchbox').waitFor();
    assert.equal(await page.getByRole('searchbox').inputValue(), `app:${app}`);
  });

  it('asks again when its row changes, and at most once a second', async () => {
    await using opened = await open('converging', isRefused);
    const { server, row, watched } = opened;
    const asks = (): number => server.asked.filter((asked) => asked.startsWith('GET /clients/')).length;
    await watched.page.getByText('Recent transactions').waitFor();
    const before = asks();
    for (let round = 1; round <= 20; round++) {
      server.tell({ at: Date.now(), clients: [{ ...row, reported_at: Date.now() + round }] });
    }
    await until(async () => asks() > before, { withinMs: IN_PAGE_MS, what: 'the page asks again' });
    assert(asks() <= before + 2, `${asks() - before} requests after 20 changes`);
    server.tell({ at: Date.now(), gone: [row.id] });
    await watched.page.getByRole('status').filter({ hasText: 'It is no longer listed.' }).waitFor();
  });

  it('asks once before it acts, says whether that can be taken back, and shows the result', async () => {
    await using opened = await open('converging', isRefused);
    const { server, watched } = opened;
    const { page } = watched;
    await page.getByText('Recent transactions').waitFor();
    await page.getByRole('button', { name: 'Prune' }).click();
    const dialog = page.getByRole('dialog');
    await dialog
      .getByText(/removes 1.document that the log does not know \(\/limits\/trial\).*cannot be taken back/)
      .waitFor();
    assert.deepEqual(await watched.axe(), []);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    assert.deepEqual(server.posted, []);
    await page.getByRole('button', { name: 'Log: info' }).click();
    await dialog.getByRole('combobox').selectOption('debug');
    await dialog.getByRole('button', { name: 'Set the level' }).click();
    await page
      .getByText(/log_level: 24 documents/)
      .first()
      .waitFor();
    assert.deepEqual(server.posted, [{ action: 'log_level', level: 'debug' }]);
  });

  const OFF: readonly [name: string, opened: () => Promise<Opened>, reason: RegExp][] = [
    ['a token that may look', () => open('listener', isRefused), /Your token may look, not act/],
    ['an OPAL client', () => look(({ kind }) => kind === 'plain'), /An OPAL client cannot be asked/],
    ['a client that is away', () => look(({ connected }) => !connected), /It is away/],
  ];
  for (const [name, openOne, reason] of OFF) {
    it(`shows the actions off for ${name}, with the reason`, async () => {
      await using opened = await openOne();
      const { page } = opened.watched;
      const refresh = page.getByRole('button', { name: 'Refresh' });
      assert.equal(await refresh.getAttribute('aria-disabled'), 'true');
      assert.match((await refresh.getAttribute('title')) ?? '', reason);
      await refresh.click({ force: true });
      assert.equal(await page.getByRole('dialog').count(), 0);
      assert.deepEqual(await opened.watched.axe(), []);
    });
  }

  it('shows off what the client says that it cannot do, with its reason, and proposes another level than its own', async () => {
    await using opened = await look(({ policy }) => policy.state === 'acknowledged');
    const { page } = opened.watched;
    await page.getByText('Recent transactions').waitFor();
    const reasonOf = async (name: string) => await page.getByRole('button', { name }).getAttribute('title');
    assert.equal(await reasonOf('Drift check'), 'It cannot: the drift check is off at this client.');
    assert.equal(await reasonOf('Prune'), 'There is nothing to remove.');
    const refresh = page.getByRole('button', { name: 'Refresh' });
    assert.equal(await refresh.getAttribute('aria-disabled'), null);
    await page.getByRole('button', { name: 'Log: debug' }).click();
    assert.equal(await page.getByRole('dialog').getByRole('combobox').inputValue(), 'info');
  });

  it('has each update that is blocked once, with its own path and reason', async () => {
    await using opened = await look(({ data }) => data.state === 'blocked');
    const { page } = opened.watched;
    const section = page.locator('section').filter({ has: page.getByText('Failing, blocked, orphaned') });
    await section.waitFor();
    const cells = (row: number): Promise<string[]> =>
      section.locator('tbody tr').nth(row).locator('td').allTextContents();
    assert.equal(await section.locator('.note').textContent(), '2');
    assert.equal(await section.locator('tbody tr').count(), 2);
    assert.deepEqual((await cells(0)).slice(0, 3), [
      'Blocked',
      '/limits/orders',
      'update 20,418 is blocked: a rule stands at this path',
    ]);
    assert.deepEqual((await cells(1)).slice(0, 3), ['Blocked', '/limits/stock', 'the engine refuses it: no object']);
  });

  it('has room for a long id on a small screen, in a dialog too', async () => {
    await using opened = await open('converging', isRefused);
    const { server, row, watched } = opened;
    const { page } = watched;
    const id = '4d'.repeat(32);
    server.tell({ at: Date.now(), clients: [{ ...row, id }] });
    await page.setViewportSize({ width: 360, height: 740 });
    await page.goto(`${server.url}/ui#/clients/${id}`);
    await page.getByText('Recent transactions').waitFor();
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByRole('dialog').getByText(id).waitFor();
    const beyond = '((dialog) => dialog.scrollWidth - dialog.clientWidth)(document.querySelector("dialog"))';
    assert.equal(await page.evaluate(beyond), 0);
  });

  it('says of a client that is away since when, and what its engine does', async () => {
    await using opened = await look(({ connected }) => !connected);
    const note = opened.watched.page.getByRole('status').filter({ hasText: /It has been away since .*UTC/ });
    assert.match((await note.textContent()) ?? '', /Its engine goes on with what it holds/);
    await opened.watched.page.getByText('what it did is known when it is back').waitFor();
  });

  it('says of a client that nobody knows what may be the matter', async () => {
    await leaveView(watched.page);
    await watched.page.evaluate("location.hash = '#/clients/somebody'");
    await watched.page.getByRole('heading', { name: 'Unknown client' }).waitFor();
    await watched.page.getByText(/lists no client somebody/).waitFor();
    assert.deepEqual(watched.problems(), []);
  });
});
