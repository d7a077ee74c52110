import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import { until } from '../support/until.js';
import { fixturePages } from './support/fixture-pages.js';
import { IN_PAGE_MS, NO_BROWSER } from './support/watched-page.js';

/** The page without a pointer. */

async function focused(page: Page): Promise<string> {
  return String(
    await page.evaluate(`(() => {
      const { activeElement: at } = document;
      const name = at.getAttribute('aria-label') ?? (at.labels?.[0]?.textContent || at.textContent || at.getAttribute('placeholder') || '');
      return at === document.body ? 'nothing' : at.tagName.toLowerCase() + ' ' + name.trim().slice(0, 40);
    })()`),
  );
}

async function address(page: Page): Promise<string> {
  return String(await page.evaluate('location.hash'));
}

describe('the keyboard', { skip: NO_BROWSER }, () => {
  const fixture = fixturePages('converging', (shown) => shown.getByRole('row').nth(10).waitFor());
  let page: Page;
  beforeEach(() => {
    ({ page } = fixture);
  });

  /** Waits until the address is what a key leads to. */
  async function at(hash: RegExp): Promise<void> {
    await until(async () => hash.test(await address(page)), {
      withinMs: IN_PAGE_MS,
      what: `the address is ${hash}: ${await address(page)}`,
    });
  }
  /** As whoever opens the page finds it: the focus is nowhere yet. */
  async function anew(): Promise<void> {
    await page.reload();
    await page.getByRole('row').nth(10).waitFor();
  }
  async function press(...keys: string[]): Promise<void> {
    for (const key of keys) await page.keyboard.press(key);
  }

  it('goes from the top through navigation, tools and the list, which is one stop, and nothing is a trap', async () => {
    const stops: string[] = [];
    await anew();
    for (let step = 0; step < 60; step++) {
      await press('Tab');
      const stop = await focused(page);
      if (stop === 'nothing' || (step > 5 && stop === stops[0])) break;
      stops.push(stop);
    }
    const text = stops.join('\n');
    assert.match(stops[0] ?? '', /Skip to content/, text);
    const order = [/^a Fleet$/, /^a Changes$/, /^a Data$/, /^a Policy$/, /^a Instances$/, /input/, /Clients$/];
    const places = order.map((pattern) => stops.findIndex((stop) => pattern.test(stop)));
    assert(
      places.every((place, index) => place > (places[index - 1] ?? -1)),
      `${text}\n${places.join(' ')}`,
    );
    assert(stops.filter((stop) => /(?:orders|stock|mailer|accounts|gateway|reports)-/.test(stop)).length === 0, text);
  });

  it('skips to the content', async () => {
    await anew();
    await press('Tab', 'Enter');
    assert.equal(await page.evaluate('document.activeElement.id'), 'main');
  });

  it('walks the rows with j, k, arrows, End and Home, opens one with Enter, and comes back with Esc', async () => {
    await press('j', 'j');
    const second = page.getByRole('grid').locator('[role=row][aria-selected=true]');
    const id = await second.getAttribute('data-id');
    assert.ok(id);
    const active = await page.getByRole('grid').getAttribute('aria-activedescendant');
    assert.equal(await second.getAttribute('id'), active);
    await press('k');
    assert.notEqual(await second.getAttribute('data-id'), id);
    await press('ArrowDown');
    assert.equal(await second.getAttribute('data-id'), id);
    await press('End');
    assert.equal(await second.getAttribute('aria-rowindex'), '123');
    const box = await second.boundingBox();
    assert(box !== null && box.y >= 0 && box.y + box.height <= 900, JSON.stringify(box));
    await press('Home');
    const first = await second.getAttribute('data-id');
    await press('Enter');
    await at(new RegExp(`^#/clients/${first}$`));
    await page
      .getByRole('heading', { level: 1 })
      .filter({ hasText: first ?? '' })
      .waitFor();
    await press('Escape');
    await at(/^#\/fleet/);
  });

  it('goes to each page with g and a letter, and the focus goes to its heading', async () => {
    for (const [key, hash, heading] of [
      ['c', /^#\/changes/, 'Changes'],
      ['d', /^#\/data/, 'Data'],
      ['p', /^#\/policy/, 'Policy'],
      ['i', /^#\/instances/, 'Instances'],
      ['f', /^#\/fleet/, ''],
    ] as const) {
      await press('g', key);
      await at(hash);
      await page.getByRole('heading', { level: 1 }).first().waitFor({ state: 'attached' });
      await until(async () => (await focused(page)).startsWith('h1'), {
        withinMs: IN_PAGE_MS,
        what: `the heading of ${heading} has the focus, not ${await focused(page)}`,
      });
    }
  });

  it('an address that no page has is no page of the navigation', async () => {
    await page.goto(`${fixture.server.url}/ui#/nowhere`);
    await page.getByText('No such page').waitFor();
    assert.equal(await page.locator('nav [aria-current]').count(), 0);
  });

  it('searches with /, writes the address, and leaves the field with Esc', async () => {
    await press('/');
    await until(async () => (await focused(page)).startsWith('input'), {
      withinMs: IN_PAGE_MS,
      what: 'the field is focused',
    });
    await page.keyboard.type('app:orders state:told');
    await at(/q=app:orders\+state:told/);
    await press('Escape');
    assert.doesNotMatch(await focused(page), /^input/);
    await press('g', 'c');
    await at(/^#\/changes/);
    await page.goBack();
    await at(/q=app:orders/);
    assert.equal(await page.getByRole('searchbox').inputValue(), 'app:orders state:told');
  });

  it('types a j into the search, not into the list', async () => {
    await press('/');
    await until(async () => (await focused(page)).startsWith('input'), {
      withinMs: IN_PAGE_MS,
      what: 'the field is focused',
    });
    await page.keyboard.type('jkgt?');
    assert.equal(await page.getByRole('searchbox').inputValue(), 'jkgt?');
  });

  it('shows the keys with ?, keeps the focus inside, and gives it back with Esc', async () => {
    const before = await address(page);
    await press('?');
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    for (let step = 0; step < 6; step++) {
      await press('Tab');
      const isInside = await page.evaluate(
        "document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)",
      );
      assert(isInside, await focused(page));
    }
    await press('Escape');
    await dialog.waitFor({ state: 'hidden' });
    assert.equal(await address(page), before);
  });

  it('switches between light and dark with t, and the choice is kept', async () => {
    const ground = async (): Promise<unknown> => page.evaluate('getComputedStyle(document.body).backgroundColor');
    const before = await ground();
    await press('t');
    await until(async () => (await ground()) !== before, { withinMs: IN_PAGE_MS, what: 'the ground is another one' });
    const chosen = await ground();
    await page.reload();
    await page.getByRole('row').nth(5).waitFor();
    assert.equal(await ground(), chosen);
  });

  it('asks before an action, does nothing on Esc, and does it on Enter', async () => {
    await press('j', 'Enter');
    await at(/^#\/clients\//);
    const refresh = page.getByRole('button', { name: 'Refresh', disabled: false });
    await refresh.waitFor();
    await refresh.focus();
    const before = fixture.server.posted.length;
    await press('Enter');
    await page.getByRole('dialog').waitFor();
    await press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
    assert.equal(fixture.server.posted.length, before);
    assert.match(await focused(page), /Refresh/, 'the focus is back');
    await press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    await dialog.getByRole('button', { name: 'Refresh' }).focus();
    await press('Enter');
    await until(() => fixture.server.posted.length > before, { withinMs: IN_PAGE_MS, what: 'the client is asked' });
    assert.deepEqual(fixture.server.posted.at(-1), { action: 'refresh' });
    await page
      .getByText(/24 documents and 13 files are current/)
      .first()
      .waitFor({ state: 'attached' });
  });
});
