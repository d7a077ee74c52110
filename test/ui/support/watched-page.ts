import axe from 'axe-core';
import type { Browser, ConsoleMessage, Page } from 'playwright-core';
import * as z from 'zod';
import { chromiumProgram, launchChromium } from '../../support/chromium.js';

/** A page that is watched: whatever it says, breaks or asks of another server is a problem. `await using` closes it. */
export interface WatchedPage extends AsyncDisposable {
  readonly page: Page;
  /** What went wrong so far, in words. */
  problems(): readonly string[];
  /** What is wrong for people who see badly or use a keyboard, by axe (WCAG 2.2 AA), in words. */
  axe(): Promise<string[]>;
  /** Draws what it has to draw. */
  settled(): Promise<void>;
}

/** Chromium for the tests of one file, started when the first page is opened. `await using` ends it. */
export interface TestBrowser extends AsyncDisposable {
  /** Opens an address of `origin`. `expects` are problems that a test provokes: parts of what the console says of them. */
  open(url: string, options?: OpenOptions): Promise<WatchedPage>;
}

export interface OpenOptions {
  readonly width?: number;
  readonly height?: number;
  readonly theme?: 'light' | 'dark';
  readonly expects?: readonly string[];
}

const PROGRAM = await chromiumProgram();
/** For `skip` of a test: why there is no browser, or false. */
export const NO_BROWSER: string | false = 'missing' in PROGRAM ? PROGRAM.missing : false;
/** In a page: the longest that is waited for one thing. */
export const IN_PAGE_MS = 20_000;

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
/** What a page reports of itself: content security policies that are broken. */
const TELL_VIOLATIONS = `addEventListener('securitypolicyviolation', (event) =>
  console.error('content security policy: ' + event.violatedDirective + ' ' + event.blockedURI));`;
const FRAMES = 'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))';

const axeResult = z.array(
  z.object({ id: z.string(), nodes: z.array(z.object({ html: z.string(), failureSummary: z.string() })) }),
);

/** Makes a {@link TestBrowser}. */
export function testBrowser(): TestBrowser {
  let started: Promise<Browser> | undefined;
  function browser(): Promise<Browser> {
    if ('missing' in PROGRAM) throw new Error(PROGRAM.missing);
    started ??= launchChromium(PROGRAM);
    return started;
  }
  return {
    open: async (url, options) => watchedPage(await browser(), url, options),
    async [Symbol.asyncDispose]() {
      await (await started)?.close();
    },
  };
}

async function watchedPage(
  browser: Browser,
  url: string,
  { width = 1440, height = 900, theme = 'light', expects = [] }: OpenOptions = {},
): Promise<WatchedPage> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: 'reduce',
    timezoneId: 'UTC',
    locale: 'en',
  });
  context.setDefaultTimeout(IN_PAGE_MS);
  await context.addInitScript({ content: TELL_VIOLATIONS });
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
  return {
    page,
    problems: () => problems,
    settled: async () => {
      await page.evaluate(FRAMES);
    },
    axe: async () => {
      await page.evaluate(`if (!('axe' in window)) { ${axe.source} }`);
      const found = await page.evaluate(
        `axe.run(document, { runOnly: ${JSON.stringify(TAGS)}, resultTypes: ['violations'] }).then(({ violations }) =>
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
