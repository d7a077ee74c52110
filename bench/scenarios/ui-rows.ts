import type { Browser, Page } from 'playwright-core';
import { chromiumProgram, launchChromium } from '../../test/support/chromium.js';
import { builtPage } from '../../test/ui/support/built-page.js';
import { type FixtureServer, startFixture } from '../../test/ui/support/fixture-server.js';
import { loadedBytes, pageUse, paintTimes, scrollFrames, taskTimes } from '../../test/ui/support/in-page.js';
import type { Measured } from '../lib/figure.js';
import type { Bench, Scenario } from '../lib/scenario.js';
import type { System } from '../lib/system.js';

const FRAME = 'frame while 3,000 rows scroll';
const LONGEST = 'longest task while they scroll, processor time';
const WORK = 'processor time of the page, of each second of scrolling';
const PAINT = 'first paint';
const ANSWER = 'answer, after the page was asked for';
const LOADED = 'loaded, compressed';
const HEAP = 'living objects of the page';
const PX = 420;
const LIMIT_MS = 30_000;

/** An empty page as tall as 3,000 rows, which nothing changes. */
const BARE = `data:text/html,<!doctype html><title>bare</title><body style="height:${3000 * 36}px">`;

interface Parts {
  readonly browser: Browser;
  readonly bench: Bench;
}

/** Frames of several seconds of scrolling. The processor time of tasks says what the page does, also on a machine that is busy with more. */
async function scrolled(page: Page, { bench }: Parts): Promise<Measured[]> {
  await scrollFrames(page, { px: PX, count: 60 }); // warm
  const { frames } = await scrollFrames(page, { px: PX, count: bench.pick(1200, 240) });
  const startedMs = performance.now();
  const tasks = await taskTimes(page, async () => {
    await scrollFrames(page, { px: PX, count: bench.pick(600, 240) });
  });
  const seconds = (performance.now() - startedMs) / 1000;
  return [
    { metric: FRAME, unit: 'ms', samples: frames },
    { metric: LONGEST, unit: 'ms', samples: [Math.max(0, ...tasks)] },
    { metric: WORK, unit: 'ms', samples: [tasks.reduce((sum, ms) => sum + ms, 0) / seconds] },
  ];
}

/** A page that is opened anew: when it is painted, when it answers, and how much was sent for it. */
async function opened(server: FixtureServer, { browser, bench }: Parts): Promise<Measured[]> {
  const paints: number[] = [];
  const answers: number[] = [];
  const loaded: number[] = [];
  for (let round = 0; round < bench.pick(15, 4); round++) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    const startedMs = performance.now();
    await page.goto(`${server.url}/ui`, { timeout: LIMIT_MS });
    await page
      .getByText(/of 3,000 hold/)
      .first()
      .waitFor({ timeout: LIMIT_MS });
    answers.push(performance.now() - startedMs);
    paints.push((await paintTimes(page)).firstPaint);
    loaded.push((await loadedBytes(page)) / 1000);
    await context.close();
  }
  return [
    { metric: PAINT, unit: 'ms', samples: paints },
    { metric: ANSWER, unit: 'ms', samples: answers },
    { metric: LOADED, unit: 'KB', samples: loaded },
  ];
}

async function start(bench: Bench): Promise<Parts> {
  const program = await chromiumProgram();
  if ('missing' in program) throw new Error(program.missing);
  const browser = await launchChromium(program);
  bench.keep({ [Symbol.asyncDispose]: () => browser.close() });
  return { browser, bench };
}

async function measure(bench: Bench, system: System): Promise<readonly Measured[]> {
  if (system.name === 'embedded') return []; // the page is the same
  const parts = await start(bench);
  const server = bench.keep(await startFixture(await builtPage(), 'many'));
  const page = await parts.browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(`${server.url}/ui`, { timeout: LIMIT_MS });
  await page.getByRole('row').nth(10).waitFor({ timeout: LIMIT_MS });
  const frames = await scrolled(page, parts);
  const uses = await pageUse(page);
  const heap = await uses.heapBytes();
  await page.close();
  return [...frames, { metric: HEAP, unit: 'MB', samples: [heap / 1e6] }, ...(await opened(server, parts))];
}

async function raw(bench: Bench): Promise<readonly Measured[]> {
  const parts = await start(bench);
  const page = await parts.browser.newPage({ viewport: { width: 1440, height: 900 } });
  await page.goto(BARE);
  return await scrolled(page, parts);
}

export const uiRowsScenario: Scenario = {
  name: 'ui-rows',
  about:
    'The page at /ui in a headless Chromium: 3,000 clients, 120 of which change 4 times a second, while the list scrolls 420 px a frame.',
  rawIs: 'an empty page of the same height that scrolls',
  withoutPeer: true,
  goals: [
    { metric: FRAME, statistic: 'p99', of: 'number', atMost: 50 },
    { metric: LONGEST, statistic: 'median', of: 'number', atMost: 50, check: 100 },
    { metric: PAINT, statistic: 'median', of: 'number', atMost: 1000, check: 5000 },
    { metric: LOADED, statistic: 'median', of: 'number', atMost: 80, check: 80 },
  ],
  raw,
  measure,
};
