// Builds the documentation as a static site with search: site/.vitepress/dist. A dead link ends the
// build. Former addresses of pages lead to the new ones (site/lib/redirects.mjs).
//
//   npm run site               builds
//   npm run site -- --serve    builds, and serves it on this machine
//
// SITE_BASE is the path below which it is published (`/policysync/`), SITE_SOURCE the URL below which the files of the repository can
// be read.
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { redirectFiles } from '../site/lib/redirects.mjs';
import { Fatal, main, run } from './lib/run.mjs';

const SITE = join(dirname(import.meta.dirname), 'site');
const DIST = join(SITE, '.vitepress', 'dist');
const LOCK = join(SITE, 'package-lock.json');
/** The lock file of what is installed. */
const INSTALLED = join(SITE, 'node_modules', '.installed-lock.json');

async function step(command, args) {
  const code = await run(command, args, { cwd: SITE });
  if (code !== 0) throw new Fatal(`"${command} ${args.join(' ')}" in site/ ended with code ${code}; see above.`);
}

await main(async () => {
  const flags = process.argv.slice(2);
  const unknown = flags.find((flag) => flag !== '--serve');
  if (unknown !== undefined) throw new Fatal(`Unknown argument ${unknown}; there is --serve.`);
  if (!existsSync(INSTALLED) || readFileSync(INSTALLED, 'utf8') !== readFileSync(LOCK, 'utf8')) {
    await step('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund']);
    copyFileSync(LOCK, INSTALLED);
  }
  await step('npm', ['run', '--silent', 'build']);
  for (const [file, html] of redirectFiles(process.env.SITE_BASE)) writeFileSync(join(DIST, file), html);
  if (flags.includes('--serve')) await step('npm', ['run', '--silent', 'preview']);
  return 0;
});
