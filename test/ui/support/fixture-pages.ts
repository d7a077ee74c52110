import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach } from 'node:test';
import type { Page } from 'playwright-core';
import { until } from '../../support/until.js';
import { builtPage } from './built-page.js';
import { type FixtureServer, startFixture } from './fixture-server.js';
import type { ScenarioName } from './scenarios.js';
import { addressOf } from './take-picture.js';
import { type TestBrowser, testBrowser, type WatchedPage } from './watched-page.js';

/** What a test has: the fixture and the page of all tests of a suite. */
export interface FixturePages {
  readonly browser: TestBrowser;
  readonly server: FixtureServer;
  readonly watched: WatchedPage;
  readonly page: Page;
}

/** Of a window, unless a test takes another one. */
export const SIZE = { width: 1440, height: 900 };

/**
 * Registers the hooks of a suite: one fixture and one page for all its tests. Each begins at the list of the fleet, without what the one
 * before has left, and must leave nothing in the console. `shown` waits until the page is ready. The members of the result are there
 * within tests.
 */
export function fixturePages(scenario: ScenarioName, shown: (page: Page) => Promise<void>): FixturePages {
  const browser = testBrowser();
  let server: FixtureServer | undefined;
  let watched: WatchedPage | undefined;
  let problems = 0;
  const there = <T>(one: T | undefined): T => {
    assert(one !== undefined, 'it is there within tests');
    return one;
  };
  before(async () => {
    server = await startFixture(await builtPage(), scenario);
    watched = await browser.open(`${server.url}/ui`, SIZE);
  });
  beforeEach(async () => {
    const { page } = there(watched);
    await page.mouse.move(0, 0);
    await page.setViewportSize(SIZE);
    await there(watched).setLetters('usual');
    await leaveView(page);
    await page.evaluate("location.hash = '#/fleet'");
    await shown(page);
  });
  afterEach(() => {
    const all = there(watched).problems();
    const own = all.slice(problems);
    problems = all.length;
    assert.deepEqual(own, []);
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });
  return {
    browser,
    get server() {
      return there(server);
    },
    get watched() {
      return there(watched);
    },
    get page() {
      return there(watched).page;
    },
  };
}

/** Leaves the view that a page shows, so that the next one is not taken for it. */
export async function leaveView(page: Page): Promise<void> {
  await page.evaluate("document.activeElement?.blur(); location.hash = '#/nowhere-yet'");
  await page.getByText('No such page').waitFor();
}

interface Scene {
  readonly server: FixtureServer;
  readonly page: Page;
}

/** Leaves the page of a fixture, so that it asks and says nothing more. What it has kept is gone. */
export async function leaveScene({ server, page }: Scene): Promise<void> {
  await page.goto(`${server.url}/ui/session`); // of the same origin: the process and its compiled scripts stay
  await page.evaluate('localStorage.clear()');
  // A stream that the server ends while the browser still has it is an error in the console.
  await until(() => server.streams() === 0, { withinMs: 20_000, what: 'the browser has closed its stream' });
}

/** Loads the page of a fixture that was left, with another scenario. Much cheaper than a page of its own. */
export async function beginScene({ server, page }: Scene, scenario: ScenarioName, at: string): Promise<void> {
  server.become(scenario);
  await page.goto(`${server.url}/ui${addressOf(server, at)}`);
}
