import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { until } from '../support/until.js';
import { builtPage } from './support/built-page.js';
import { cutTexts } from './support/cut-texts.js';
import { fixturePages } from './support/fixture-pages.js';
import { startFixture } from './support/fixture-server.js';
import { IN_PAGE_MS, NO_BROWSER, type WatchedPage } from './support/watched-page.js';

/** The list of the fleet: what is found, in which order, and that all of it stands in the address. */

/** Lines with a client, in the order of the list. */
const linesOf = (page: Page): Locator => page.locator('[role=row][data-id]:not([data-id=""]):visible');

describe('the list of the fleet', { skip: NO_BROWSER }, () => {
  const fixture = fixturePages('converging', (shown) => linesOf(shown).first().waitFor());
  let page: Page;
  beforeEach(() => {
    ({ page } = fixture);
  });

  const lines = (): Locator => linesOf(page);
  async function shown(): Promise<{ id: string; text: string }[]> {
    const found = await lines().evaluateAll((all) =>
      all.map((line) => [
        Number(line.getAttribute('aria-rowindex')),
        line.getAttribute('data-id') ?? '',
        line.textContent ?? '',
      ]),
    );
    return (found as [number, string, string][]).sort(([a], [b]) => a - b).map(([, id, text]) => ({ id, text }));
  }
  async function seen(what: string, isThere: () => Promise<boolean>): Promise<void> {
    await until(isThere, { withinMs: IN_PAGE_MS, what });
  }
  async function eachWordIsWhole(watched: WatchedPage, widths: readonly number[]): Promise<void> {
    for (const letters of ['usual', 'wide'] as const) {
      await watched.setLetters(letters);
      for (const width of widths) {
        await watched.page.setViewportSize({ width, height: 900 });
        await watched.settled();
        assert.deepEqual(await cutTexts(watched.page), [], `at ${width} px, ${letters} letters`);
      }
    }
  }
  const address = async (): Promise<string> => String(await page.evaluate('location.hash'));

  it('shows who needs a look first: refused, away, unhealthy, not ready, then who does not say', async () => {
    const texts = (await shown()).slice(0, 7).map(({ text }) => text);
    const order = [/Refused/, /Refused/, /Away/, /Unhealthy/, /Unhealthy/, /Not ready/, /Does not say/];
    for (const [index, pattern] of order.entries()) assert.match(texts[index] ?? '', pattern);
    assert.match(texts[0] ?? '', /1\sbehind.*approval\.rego:27/);
  });

  it('searches while one types, and the address leads to the same', async () => {
    const box = page.getByRole('searchbox');
    await box.fill('app:orders state:told -zone:us');
    await seen('the search is in the address', async () => (await address()).includes('app:orders'));
    await seen('only such clients', async () =>
      (await shown()).every(({ text }) => /orders, eu-/.test(text) && /Told/.test(text)),
    );
    const found = await shown();
    assert(found.length > 0);
    const { length } = await page.evaluate<{ length: number }>('({ length: history.length })');
    await box.press('End');
    await box.pressSequentially(' nobody');
    await page.getByText(/No client matches/).waitFor();
    assert.equal(await page.evaluate('history.length'), length, 'typing adds no step to the history');

    await using other = await fixture.browser.open(`${fixture.server.url}/ui#/fleet?q=app:orders+state:told+-zone:us`);
    await other.page.locator('[role=row][data-id]:not([data-id=""]):visible').first().waitFor();
    assert.equal(await other.page.getByText(`${found.length} of 122`).count(), 1);
    assert.deepEqual(other.problems(), []);
  });

  it('says which word is wrong, and clears a search that finds nobody', async () => {
    await page.getByRole('searchbox').fill('is:sad region:mars');
    await page.getByText(/"is:sad" does not count: only is:needing is known\./).waitFor();
    await page.getByText(/No client has the label "region"/).waitFor();
    await page.getByRole('button', { name: 'Clear the search' }).click();
    await lines().nth(5).waitFor();
    assert.equal(await page.getByRole('searchbox').inputValue(), '');
    assert.equal(await page.evaluate('document.activeElement.id'), 'q');
  });

  it('has filters at hand, with counts, and the button of the browser takes them back', async () => {
    const refused = page.getByRole('button', { name: /^Refused 2/ });
    await refused.click();
    await seen('two lines', async () => (await lines().count()) === 2);
    assert.equal(await refused.getAttribute('aria-pressed'), 'true');
    assert.match(await address(), /q=state:refused/);
    await page.getByRole('button', { name: /^Away 1/ }).click();
    await seen('one line', async () => (await lines().count()) === 1);
    await page.goBack();
    await seen('two lines again', async () => (await lines().count()) === 2);
  });

  it('sorts by a column, and the other way by the same', async () => {
    const head = page.getByRole('columnheader', { name: /Client/ });
    await head.getByRole('button').click();
    const order = async (): Promise<string[]> => (await shown()).map(({ id }) => id).slice(0, 10);
    const byName = (await page.locator('[role=row]').count()) > 0 ? await order() : [];
    assert.deepEqual(byName, [...byName].sort(new Intl.Collator('en', { numeric: true }).compare));
    assert.equal(await head.getAttribute('aria-sort'), 'ascending');
    await head.getByRole('button').click();
    await seen('the other order', async () => (await order())[0] !== byName[0]);
    assert.match(await address(), /sort=-client/);
    assert.equal(await head.getAttribute('aria-sort'), 'descending');
  });

  it('groups by a label, with a bar and counts at each head', async () => {
    await page.getByRole('combobox', { name: 'Groups' }).selectOption('app');
    const head = page
      .getByRole('row')
      .filter({ hasText: /refused/ })
      .first();
    await head.getByText(/\d+ of \d+ hold/).waitFor();
    assert.match(await address(), /group=app/);
    await page.getByRole('combobox', { name: 'Groups' }).selectOption('engine');
    await page.getByText('engine opa 0.55.0').waitFor();
  });

  it('keeps its order below the pointer while cells go on, and takes the new one afterwards', async () => {
    const fleet = fixture.server.fleet();
    const last = fleet?.clients.find(({ policy }) => policy.state === 'acknowledged');
    assert(fleet && last);
    await lines().nth(3).hover();
    const before = (await shown()).map(({ id }) => id);
    const text = 'undefined function made_up';
    fixture.server.tell({
      at: Date.now(),
      clients: [
        {
          ...last,
          policy: { ...last.policy, state: 'refused', behind: 9 },
          error: { kind: 'policy', place: 'a.rego:1', text, since: null },
        },
      ],
    });
    await page.getByText('new order when you leave the list').waitFor();
    assert.deepEqual(
      (await shown()).map(({ id }) => id),
      before,
    );
    await page.getByRole('searchbox').hover();
    await seen('it stands first', async () => (await shown())[0]?.id === last.id);
    assert.match((await shown())[0]?.text ?? '', /made_up/);
    fixture.server.tell({ at: Date.now(), clients: [last] });
    await seen('it is as before', async () => (await shown())[0]?.id !== last.id);
  });

  it('counts at the head of a group who holds the commit that is served, below the pointer too', async () => {
    const fleet = fixture.server.fleet();
    assert(fleet);
    await page.getByRole('combobox', { name: 'Groups' }).selectOption('app');
    const heads = page.getByRole('row').filter({ hasText: /\d of \d+ hold/ });
    await heads.first().waitFor();
    await lines().nth(3).hover();
    const held = fleet.clients.filter(({ policy }) => policy.state === 'acknowledged');
    fixture.server.tell({
      at: Date.now(),
      summary: { ...fleet.summary, policy: { head: 'c0ffee0c0ffee0', counts: { not_told: fleet.clients.length } } },
      clients: held.map((row) => ({ ...row, policy: { ...row.policy, state: 'not_told', behind: 1 } })),
    });
    await heads.getByText('c0ffee0').first().waitFor();
    for (const text of await heads.allTextContents()) assert.match(text, /\D0 of \d+ hold c0ffee0/);
    fixture.server.tell({ at: Date.now(), summary: fleet.summary, clients: fleet.clients });
    await heads.getByText('c0ffee0').first().waitFor({ state: 'detached' });
  });

  it('goes on with its order while the focus is at the head of a column', async () => {
    const some = fixture.server.fleet()?.clients.find(({ policy }) => policy.state === 'acknowledged');
    assert(some);
    await page
      .getByRole('columnheader', { name: /Client/ })
      .getByRole('button')
      .click();
    fixture.server.tell({ at: Date.now(), clients: [{ ...some, id: '0-first' }] });
    await seen('it stands first', async () => (await shown())[0]?.id === '0-first');
    fixture.server.tell({ at: Date.now(), gone: ['0-first'] });
    await seen('it is gone', async () => (await shown())[0]?.id !== '0-first');
  });

  it('gives columns that are not there no room: one server, and clients without labels', async () => {
    await using alone = await startFixture(await builtPage(), 'alone');
    await using other = await fixture.browser.open(`${alone.url}/ui`);
    await linesOf(other.page).first().waitFor();
    const clients = alone.fleet()?.clients.map((one) => ({ ...one, labels: {} })) ?? [];
    alone.tell({ at: Date.now(), clients });
    await other.page.locator('[role=grid].no-labels.no-instance').waitFor();
    await eachWordIsWhole(other, [1440, 1280]);
  });

  it('has room for the words of each column, in wider letters too, in the narrowest window that has the column', async () => {
    await eachWordIsWhole(fixture.watched, [1361, 1261, 941, 720]);
  });

  it('opens a client and comes back to where it was', async () => {
    await page.evaluate('scrollTo(0, 1800)');
    await fixture.watched.settled();
    const line = page.locator('[role=row][aria-rowindex="56"]');
    await line.waitFor();
    const id = (await line.getAttribute('data-id')) ?? '';
    const y = Number(await page.evaluate('scrollY'));
    await line.click();
    await page.getByRole('heading', { level: 1 }).filter({ hasText: id }).waitFor();
    await page.goBack();
    await lines().first().waitFor();
    await seen('it is scrolled as it was', async () => Math.abs(Number(await page.evaluate('scrollY')) - y) < 2);
    assert.equal(await page.locator('[role=row][aria-selected=true]').getAttribute('data-id'), id);
  });
});
