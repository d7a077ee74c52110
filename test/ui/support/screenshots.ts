/**
 * Takes the pictures of the documentation, `docs/images/ui-*.webp`, of a sample fleet: `npm run docs:screenshots`. WebP, since they are
 * part of the package, which has a limit.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import * as z from 'zod';
import { chromiumProgram, launchChromium } from '../../support/chromium.js';
import { repoRoot } from '../../support/repo.js';
import { builtPage } from './built-page.js';
import { startFixture } from './fixture-server.js';
import { HEAD } from './sample-fleet.js';
import type { ScenarioName } from './scenarios.js';
import { addressOf } from './take-picture.js';

interface Picture {
  readonly name: string;
  readonly at: string;
  /** Is there when the page is. */
  readonly shows: RegExp;
  readonly theme?: 'light' | 'dark';
  readonly width?: number;
  readonly height?: number;
  readonly scenario?: ScenarioName;
}

const PICTURES: readonly Picture[] = [
  { name: 'fleet', at: '#/fleet', shows: /61 of 122 hold/ },
  { name: 'fleet-by-app', at: '#/fleet?group=app', shows: /61 of 122 hold/, theme: 'dark' },
  { name: 'fleet-360', at: '#/fleet', shows: /61 of 122 hold/, width: 360, height: 780 },
  { name: 'client', at: '#/clients/*', shows: /approval\.rego:27/ },
  { name: 'changes', at: '#/changes', shows: /Mailer: one rule/ },
  { name: 'change', at: `#/changes/${HEAD}`, shows: /Per client/ },
  { name: 'data', at: '#/data?path=/limits/orders', shows: /Who gets it/ },
  { name: 'policy', at: '#/policy?tab=diff', shows: /approval\.rego/ },
  { name: 'instances', at: '#/instances', shows: /Backbone round trip/, theme: 'dark' },
  { name: 'sign-in', at: '#/fleet', shows: /Sign in/, scenario: 'signed-out', width: 720, height: 400 },
];
const QUALITY = 25;
const LIMIT_BYTES = 600_000;

async function take(browser: Browser, picture: Picture): Promise<number> {
  const { name, at, shows, theme = 'light', width = 1280, height = 800, scenario = 'converging' } = picture;
  await using server = await startFixture(await builtPage(), scenario);
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: 'reduce',
    timezoneId: 'UTC',
  });
  await page.goto(`${server.url}/ui${addressOf(server, at)}`);
  await page.getByText(shows).first().waitFor();
  await page.evaluate(
    'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))))',
  );
  const content = await asWebp(page);
  await page.close();
  await writeFile(join(repoRoot(), 'docs', 'images', `ui-${name}.webp`), content);
  return content.length;
}

async function asWebp(page: Page): Promise<Buffer> {
  const session = await page.context().newCDPSession(page);
  const taken = await session.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  return Buffer.from(z.object({ data: z.string() }).parse(taken).data, 'base64');
}

async function main(): Promise<void> {
  const program = await chromiumProgram();
  if ('missing' in program) throw new Error(program.missing);
  const browser = await launchChromium(program);
  let total = 0;
  try {
    for (const picture of PICTURES) {
      const bytes = await take(browser, picture);
      process.stdout.write(`docs/images/ui-${picture.name}.webp: ${Math.round(bytes / 1000)} KB\n`);
      total += bytes;
    }
  } finally {
    await browser.close();
  }
  if (total > LIMIT_BYTES) throw new Error(`the pictures have ${total} bytes, more than ${LIMIT_BYTES}`);
}

await main();
