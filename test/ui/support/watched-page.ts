import axe from 'axe-core';
import type { Browser, ConsoleMessage, Page } from 'playwright-core';
import * as z from 'zod';
import { chromiumProgram, launchChromium } from '../../support/chromium.js';
import { type Letters, lettersScript, setLetters } from './letters.js';

/** A page that is watched: whatever it says, breaks or asks of another server is a problem. `await using` closes it. */
export interface WatchedPage extends AsyncDisposable {
  readonly page: Page;
  /** What went wrong so far, in words. */
  problems(): readonly string[];
  /**
   * What is wrong for people who see badly or use a keyboard, by axe (WCAG 2.2 AA), in words. `looks`: only what another theme or
   * width can make wrong.
   */
  axe(what?: 'everything' | 'looks'): Promise<string[]>;
  /** Draws what it has to draw. */
  settled(): Promise<void>;
  /** Takes letters of another width, and draws. */
  setLetters(letters: Letters): Promise<void>;
}

/** Chromium for the tests of one suite, started when the first page is opened. `await using` gives it back. */
export interface TestBrowser extends AsyncDisposable {
  /** Opens an address of `origin`. `expects` are problems that a test provokes: parts of what the console says of them. */
  open(url: string, options?: OpenOptions): Promise<WatchedPage>;
}

export interface OpenOptions {
  readonly width?: number;
  readonly height?: number;
  readonly theme?: 'light' | 'dark';
  readonly expects?: readonly string[];
  /** How wide the letters are at first. */
  readonly letters?: Letters;
  /** Time of the page that a test can let pass (`page.clock`). */
  readonly clock?: boolean;
}

const PROGRAM = await chromiumProgram();
/** For `skip` of a test: why there is no browser, or false. */
export const NO_BROWSER: string | false = 'missing' in PROGRAM ? PROGRAM.missing : false;
/** In a page: the longest that is waited for one thing. */
export const IN_PAGE_MS = 20_000;

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
const RULES = {
  everything: TAGS,
  looks: { type: 'rule', values: ['color-contrast', 'link-in-text-block', 'target-size'] },
} as const;
/** What a page reports of itself: content security policies that are broken. */
const TELL_VIOLATIONS = `addEventListener('securitypolicyviolation', (event) =>
  console.error('content security policy: ' + event.violatedDirective + ' ' + event.blockedURI));`;
const FRAMES = 'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))';

const axeResult = z.array(
  z.object({ id: z.string(), nodes: z.array(z.object({ html: z.string(), failureSummary: z.string() })) }),
);

/** How long the browser is kept for the next suite of this process once nobody has it. */
const KEPT_MS = 1_000;

/** The browser of this process: one for all its suites, each page with a context of its own. */
const shared: { browser: Promise<Browser> | undefined; users: Set<TestBrowser>; closing: NodeJS.Timeout | undefined } =
  {
    browser: undefined,
    users: new Set(),
    closing: undefined,
  };

function sharedBrowser(user: TestBrowser): Promise<Browser> {
  if ('missing' in PROGRAM) throw new Error(PROGRAM.missing);
  shared.users.add(user);
  clearTimeout(shared.closing);
  shared.browser ??= launchChromium(PROGRAM);
  return shared.browser;
}

/** Whoever is the last closes it, unless another suite begins soon: a browser that is open keeps the process. */
async function giveBack(user: TestBrowser): Promise<void> {
  if (!shared.users.delete(user) || shared.users.size > 0) return;
  const browser = await shared.browser;
  clearTimeout(shared.closing);
  shared.closing = setTimeout(() => {
    if (shared.users.size > 0) return;
    shared.browser = undefined;
    void browser?.close(); // where it fails the process does
  }, KEPT_MS);
}

/** Makes a {@link TestBrowser}. */
export function testBrowser(): TestBrowser {
  const own: TestBrowser = {
    open: async (url, options) => watchedPage(await sharedBrowser(own), url, options),
    [Symbol.asyncDispose]: () => giveBack(own),
  };
  return own;
}

async function watchedPage(
  browser: Browser,
  url: string,
  { width = 1440, height = 900, theme = 'light', expects = [], letters = 'usual', clock = false }: OpenOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: 'reduce',
    timezoneId: 'UTC',
    locale: 'en',
  });
  context.setDefaultTimeout(IN_PAGE_MS);
  await context.addInitScript({ content: `${TELL_VIOLATIONS}${lettersScript(letters)}` });
  if (clock) await context.clock.install();
  const page = await context.newPage();
  const { origin } = new URL(url);
  const problems: string[] = [];
  const tell = (text: string): void => {
    if (!expects.some((part) => text.includes(part))) problems.push(text);
  };
  page.on('console', (message) => tell(`console ${message.type()}: ${message.text()}${placeOf(message)}`));
  page.on('pageerror', (error) => tell(`error: ${error.stack ?? error.message}`));
  page.on('dialog', (dialog) => {
    tell(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on('request', (request) => {
    const asked = new URL(request.url());
    if (asked.origin !== origin && asked.protocol !== 'data:') tell(`asks elsewhere: ${request.url()}`);
  });
  await page.goto(url);
  const settled = async (): Promise<void> => {
    await page.evaluate(FRAMES);
  };
  return {
    page,
    problems: () => problems,
    settled,
    async setLetters(other) {
      await setLetters(page, other);
      await settled();
    },
    axe: async (what = 'everything') => {
      if ((await page.evaluate("'axe' in window")) !== true) await page.evaluate(axe.source);
      const found = await page.evaluate(
        `axe.run(document, { runOnly: ${JSON.stringify(RULES[what])}, resultTypes: ['violations'], preload: false }).then(({ violations }) =>
          violations.map(({ id, nodes }) =>
            ({ id, nodes: nodes.map(({ html, failureSummary }) => ({ html, failureSummary: failureSummary ?? '' })) })))`,
      );
      return axeResult
        .parse(found)
        .flatMap(({ id, nodes }) =>
          nodes.map(
            ({ html, failureSummary }) => `${id}: ${html.slice(0, 200)}: ${failureSummary.replaceAll(/\s+/g, ' ')}`,
          ),
        );
    },
    [Symbol.asyncDispose]: () => context.close(),
  };
}

function placeOf(message: ConsoleMessage): string {
  const { url } = message.location();
  return url === '' ? '' : ` (${new URL(url).pathname})`;
}
