// Takes the pictures of the live page again (docs/images/ui-*.webp), of a sample fleet, in a headless Chromium:
//
//   npm run docs:screenshots
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compile } from './lib/compile.mjs';
import { main, run } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

await main(async () => {
  await compile(ROOT, 'build');
  return run(process.execPath, [join(ROOT, 'build', 'test', 'ui', 'support', 'screenshots.js')], { cwd: ROOT });
});
