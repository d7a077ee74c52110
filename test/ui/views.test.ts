import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { builtPage } from './support/built-page.js';
import { cutTexts } from './support/cut-texts.js';
import { beginScene, leaveScene, leaveView } from './support/fixture-pages.js';
import { type FixtureServer, startFixture } from './support/fixture-server.js';
import type { Letters } from './support/letters.js';
import { DATA_HEAD, HEAD, NOT_SERVED } from './support/sample-fleet.js';
import { SCENARIOS, type ScenarioName } from './support/scenarios.js';
import { addressOf } from './support/take-picture.js';
import { NO_BROWSER, testBrowser, type WatchedPage } from './support/watched-page.js';

/** Each view in each state, at three widths and in both themes, and its texts in letters of two widths. */

interface Size {
  readonly width: number;
  readonly theme: 'light' | 'dark';
  readonly axe: 'everything' | 'looks';
}

/**
 * Each view once at all of them; its other states, which differ in parts of it, at the two that are furthest from each other. The widest
 * and the narrowest have elements of their own, so axe looks for everything there, in both themes.
 */
const SIZES: Readonly<Record<'all' | 'two', readonly Size[]>> = {
  all: [
    { width: 1440, theme: 'light', axe: 'everything' },
    { width: 1440, theme: 'dark', axe: 'looks' },
    { width: 800, theme: 'dark', axe: 'looks' },
    { width: 360, theme: 'dark', axe: 'everything' },
    { width: 360, theme: 'light', axe: 'looks' },
  ],
  two: [
    { width: 1440, theme: 'light', axe: 'everything' },
    { width: 360, theme: 'dark', axe: 'looks' },
  ],
};

/** Lines with each kind of trouble have room; more lines are the same once more. */
const HEIGHT = 600;

interface View {
  readonly name: string;
  readonly scenario: ScenarioName;
  readonly at: string;
  /** What is seen when it is there. */
  readonly shows: RegExp;
  readonly expects?: readonly string[];
  /** Default: two. */
  readonly sizes?: keyof typeof SIZES;
}

/** What the browser itself says where a stream is refused. */
const REFUSED_STREAM = ['(/ui/events)'];

/** As of a container or a hash. */
const LONG_ID = '4d'.repeat(32);

const VIEWS: readonly View[] = [
  { sizes: 'all', name: 'Fleet, converging', scenario: 'converging', at: '#/fleet', shows: /61 of 122 hold/ },
  { sizes: 'all', name: 'Fleet, by app', scenario: 'converging', at: '#/fleet?group=app', shows: /61 of 122 hold/ },
  { name: 'Fleet, nothing found', scenario: 'converging', at: '#/fleet?q=app:nowhere', shows: /No client/ },
  { name: 'Fleet, converged', scenario: 'converged', at: '#/fleet', shows: /Yes: all 122 hold/ },
  { name: 'Fleet, no client yet', scenario: 'empty', at: '#/fleet', shows: /No client yet/ },
  { name: 'Fleet, asking', scenario: 'loading', at: '#/fleet', shows: /Connecting/ },
  {
    sizes: 'all',
    name: 'Fleet, stream cut',
    scenario: 'lost',
    at: '#/fleet',
    shows: /61 of 122 held/,
    expects: REFUSED_STREAM,
  },
  { name: 'Fleet, incomplete', scenario: 'incomplete', at: '#/fleet', shows: /may be more clients/ },
  { name: 'Fleet, limited', scenario: 'limited', at: '#/fleet', shows: /You see a part/ },
  {
    name: 'Fleet, commit refused by the server',
    scenario: 'refused',
    at: '#/fleet',
    shows: /refused the newest commit/,
  },
  { name: 'Fleet, session ends soon', scenario: 'expiring', at: '#/fleet', shows: /Your session ends/ },
  { sizes: 'all', name: 'client that refuses', scenario: 'converging', at: '#/clients/*', shows: /approval\.rego:27/ },
  { name: 'client, token without the right', scenario: 'listener', at: '#/clients/*', shows: /approval\.rego:27/ },
  { name: 'client that nobody knows', scenario: 'converging', at: `#/clients/${LONG_ID}`, shows: /never connected/ },
  { sizes: 'all', name: 'Changes', scenario: 'converging', at: '#/changes', shows: /Mailer: one rule/ },
  { name: 'Changes, none', scenario: 'empty', at: '#/changes', shows: /change/i },
  {
    sizes: 'all',
    name: 'change, under way',
    scenario: 'converging',
    at: `#/changes/${HEAD}`,
    shows: /Orders above 1,000/,
  },
  {
    name: 'change, refused by the server',
    scenario: 'converging',
    at: `#/changes/${NOT_SERVED}`,
    shows: /rego_parse_error/,
  },
  { name: 'change of data', scenario: 'converging', at: `#/changes/${DATA_HEAD}`, shows: /accounts/ },
  {
    name: 'change that nobody knows',
    scenario: 'converging',
    at: '#/changes/77',
    shows: /77/,
    expects: ['(/trace/77)'],
  },
  { name: 'Data', scenario: 'converging', at: '#/data', shows: /accounts/ },
  { sizes: 'all', name: 'Data, one path', scenario: 'converging', at: '#/data?path=/limits/orders', shows: /orders/ },
  { name: 'Data, none', scenario: 'empty', at: '#/data', shows: /[Dd]ata/ },
  {
    sizes: 'all',
    name: 'Policy, difference',
    scenario: 'converging',
    at: '#/policy?tab=diff',
    shows: /approval\.rego/,
  },
  { sizes: 'all', name: 'Policy, files', scenario: 'converging', at: '#/policy?tab=files', shows: /routes\.rego/ },
  { name: 'Policy, none', scenario: 'empty', at: '#/policy', shows: /[Pp]olicy/ },
  { sizes: 'all', name: 'Instances', scenario: 'converging', at: '#/instances', shows: /policysync-2/ },
  { name: 'Instances, one', scenario: 'alone', at: '#/instances', shows: /policysync-0/ },
  { name: 'no such page', scenario: 'converging', at: '#/nowhere', shows: /No such page/ },
  { sizes: 'all', name: 'sign-in', scenario: 'signed-out', at: '#/fleet', shows: /Sign in/ },
  { name: 'names that look like markup', scenario: 'markup', at: '#/fleet', shows: /61 of 122 hold/ },
];

/** Widths at which each text has to be whole with wide letters, the harder case: each is the narrowest window of its layout that is tested. */
const WIDE_LETTERS = { all: [360, 800, 1280], two: [360, 1280] } as const;

describe('each view in each state', { skip: NO_BROWSER }, () => {
  const browser = testBrowser();
  let server: FixtureServer;
  let watched: WatchedPage;
  let known = 0;
  before(async () => {
    server = await startFixture(await builtPage(), 'converging');
    watched = await browser.open(`${server.url}/ui/session`);
  });
  after(async () => {
    await watched?.[Symbol.asyncDispose]();
    await browser[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  for (const scenario of new Set(VIEWS.map((view) => view.scenario))) {
    describe(`of "${SCENARIOS[scenario].about}"`, () => {
      const views = VIEWS.filter((view) => view.scenario === scenario);
      for (const [index, view] of views.entries()) {
        const { name, at, shows, expects = [], sizes = 'two' } = view;
        it(`${name}: nothing in the console, nothing from elsewhere, axe has nothing, no wider than the screen, each text whole with wider letters, too`, async () => {
          const { page } = watched;
          if (index === 0) await beginScene({ server, page }, scenario, at);
          else {
            await leaveView(page);
            await page.evaluate(`location.hash = ${JSON.stringify(addressOf(server, at))}`);
          }
          await page.getByText(shows).first().waitFor();
          const found: string[] = [];
          const look = async (letters: Letters, width: number): Promise<void> => {
            const what = `${width} px, ${letters} letters`;
            const scrollWidth = Number(await page.evaluate('document.documentElement.scrollWidth'));
            if (scrollWidth > width) found.push(`${what}: the document is ${scrollWidth} px wide`);
            found.push(...(await cutTexts(page)).map((text) => `${what}: ${text}`));
          };
          await watched.setLetters('usual');
          let before: number | undefined;
          for (const { width, theme, axe } of SIZES[sizes]) {
            await page.setViewportSize({ width, height: HEIGHT });
            await page.emulateMedia({ colorScheme: theme });
            await watched.settled();
            if (width !== before) await look('usual', width);
            found.push(...(await watched.axe(axe)).map((text) => `${width} ${theme}: ${text}`));
            before = width;
          }
          await watched.setLetters('wide');
          for (const width of WIDE_LETTERS[sizes]) {
            await page.setViewportSize({ width, height: HEIGHT });
            await watched.settled();
            await look('wide', width);
          }
          if (index === views.length - 1) await leaveScene({ server, page });
          const problems = watched.problems().slice(known);
          known += problems.length;
          found.push(...problems.filter((text) => !expects.some((part) => text.includes(part))));
          assert.deepEqual(found, []);
        });
      }
    });
  }
});
