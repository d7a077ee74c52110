// Measures how fast and how small it is, beside the raw limit of the machine and, if asked, OPAL (bench/README.md).
//
//   npm run bench                                    all scenarios
//   npm run bench -- fan-out start --quick           some, short
//   npm run bench -- --peer opal --json out.jsonl    with OPAL, figures as JSON lines
//   npm run bench -- --against main                  with another revision of this repository
//   npm run bench:check                              short, generous limits, fails when something is much slower
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compile } from './lib/compile.mjs';
import { main, run } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const BUILD = 'build';

await main(async () => {
  await compile(ROOT, BUILD, { installed: true });
  return run(process.execPath, [join(ROOT, BUILD, 'bench', 'run.js'), ...process.argv.slice(2)], { cwd: ROOT });
});
