import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { debianProgram, onPath, required, type ServerProgram } from './server-programs.js';

/** Names that Chromium has on PATH. */
const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];
/** Fonts for people to look at: a small system has none for a page. */
const FONTS = ['fonts-inter', 'fonts-jetbrains-mono'];
const LAUNCH_MS = 60_000;

/**
 * Chromium for tests: `SYNC_TEST_CHROMIUM`, else from PATH, else the headless one of Debian with the libraries that this machine lacks
 * and fonts, unpacked into the cache folder.
 */
export async function chromiumProgram(): Promise<ServerProgram> {
  return required(await anyChromium());
}

async function anyChromium(): Promise<ServerProgram> {
  const { SYNC_TEST_CHROMIUM: given = '' } = process.env;
  if (given !== '') {
    return existsSync(given) ? { path: given, env: {} } : { missing: `SYNC_TEST_CHROMIUM: there is no file ${given}` };
  }
  const path = NAMES.map(onPath).find((one) => one !== undefined);
  if (path !== undefined) return { path, env: {} };
  const [name = ''] = NAMES;
  const found = await debianProgram(name, {
    cache: 'chromium-debian',
    packages: { whole: name, more: FONTS },
    at: 'usr/lib/chromium',
  });
  return 'missing' in found ? found : await withLibraries(found);
}

/** With the libraries in folders of their own, and with the fonts. */
async function withLibraries(found: Extract<ServerProgram, { path: string }>): Promise<ServerProgram> {
  const root = dirname(dirname(dirname(dirname(found.path))));
  const { LD_LIBRARY_PATH: paths = '' } = found.env;
  const nested = await Promise.all(
    paths
      .split(':')
      .filter((path) => path !== '')
      .map(async (path) => {
        const entries = await readdir(path, { withFileTypes: true });
        return entries.filter((entry) => entry.isDirectory()).map((entry) => join(path, entry.name));
      }),
  );
  const env = {
    ...found.env,
    LD_LIBRARY_PATH: [paths, ...nested.flat()].join(':'),
    FONTCONFIG_FILE: await fontConfiguration(root),
  };
  return { path: found.path, env };
}

/** The same fonts on each machine, so that two screenshots of one page are alike. */
async function fontConfiguration(root: string): Promise<string> {
  const file = join(root, 'fonts.conf');
  if (existsSync(file)) return file;
  const prefer = (family: string, chosen: string): string =>
    `<alias binding="same"><family>${family}</family><prefer><family>${chosen}</family></prefer></alias>`;
  const cache = join(root, 'font-cache');
  await mkdir(cache, { recursive: true });
  const whole = `${file}.${process.pid}`; // others may start at the same time
  await writeFile(
    whole,
    [
      '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>',
      `<dir>${join(root, 'usr', 'share', 'fonts')}</dir><cachedir>${cache}</cachedir>`,
      ...['sans-serif', 'system-ui'].map((family) => prefer(family, 'Inter')),
      ...['monospace', 'ui-monospace'].map((family) => prefer(family, 'JetBrains Mono')),
      '</fontconfig>\n',
    ].join('\n'),
  );
  await rename(whole, file);
  return file;
}

/** Starts Chromium. It resolves loopback names only, so that a page that asks elsewhere fails. */
export async function launchChromium(program: Extract<ServerProgram, { path: string }>): Promise<Browser> {
  return await chromium.launch({
    executablePath: program.path,
    env: { ...definedEnv(), ...program.env },
    timeout: LAUNCH_MS,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--font-render-hinting=none',
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1',
    ],
  });
}

function definedEnv(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(process.env).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}
