import { chromiumProgram, launchChromium } from '../../support/chromium.js';
import type { FixtureServer } from './fixture-server.js';

/** How a picture of a page is taken. */
export interface PictureOptions {
  /** The hash of the address; `*` is the first client that needs a look. */
  readonly at: string;
  readonly width: number;
  readonly height: number;
  readonly theme: 'light' | 'dark';
  /** The whole page instead of what is seen. */
  readonly whole: boolean;
  /** Keys to press first, as `j` or `Enter`. */
  readonly keys: readonly string[];
  readonly file: string;
}

/** Takes a picture of a page, and returns what its console said. */
export async function takePicture(server: FixtureServer, options: PictureOptions): Promise<string[]> {
  const program = await chromiumProgram();
  if ('missing' in program) throw new Error(program.missing);
  const browser = await launchChromium(program);
  const said: string[] = [];
  try {
    const page = await browser.newPage({
      viewport: { width: options.width, height: options.height },
      colorScheme: options.theme,
      reducedMotion: 'reduce',
    });
    page.on('console', (message) => said.push(`console ${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => said.push(`error: ${error.stack ?? error.message}`));
    await page.goto(`${server.url}/ui${addressOf(server, options.at)}`);
    await page.waitForTimeout(600); // a person looks: whatever is there by then is the picture
    for (const key of options.keys) await page.keyboard.press(key);
    await page.waitForTimeout(options.keys.length > 0 ? 300 : 0);
    await page.screenshot({ path: options.file, fullPage: options.whole });
  } finally {
    await browser.close();
  }
  return said;
}

/** The address of a view; `*` stands for the first client that needs a look. */
export function addressOf(server: FixtureServer, at: string): string {
  if (!at.includes('*')) return at;
  const first = server.fleet()?.clients.find(({ policy }) => policy.state === 'refused');
  return at.replace('*', encodeURIComponent(first?.id ?? ''));
}
