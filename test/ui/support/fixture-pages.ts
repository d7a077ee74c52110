import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach } from 'node:test';
import type { Page } from 'playwright-core';
import { builtPage } from './built-page.js';
import { type FixtureServer, startFixture } from './fixture-server.js';
import type { ScenarioName } from './scenarios.js';
import { type TestBrowser, testBrowser, type WatchedPage } from './watched-page.js';

/** What a test has: the fixture of all tests of a suite, and a page of its own. */
export interface FixturePages {
  readonly browser: TestBrowser;
  readonly server: FixtureServer;
  readonly watched: WatchedPage;
  readonly page: Page;
}

/**
 * Registers the hooks of a suite: one fixture for all its tests, and for each a new page, which must leave nothing in the console. `shown`
 * waits until the page is ready. The members of the result are there within tests.
 */
export function fixturePages(scenario: ScenarioName, shown: (page: Page) => Promise<void>): FixturePages {
  const browser = testBrowser();
  let server: FixtureServer | undefined;
  let watched: WatchedPage | undefined;
  const there = <T>(one: T | undefined): T => {
    assert(one !== undefined, 'it is there within tests');
    return one;
  };
  before(async () => {
    server = await startFixture(await builtPage(), scenario);
  });
  beforeEach(async () => {
    watched = await browser.open(`${there(server).url}/ui`);
    await shown(watched.page);
  });
  afterEach(async () => {
    const problems = watched?.problems();
    await watched?.[Symbol.asyncDispose]();
    assert.deepEqual(problems, []);
  });
  after(async () => {
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
