// Measures how fast and how small it is, beside the raw limit of the machine and, if asked, OPAL (bench/README.md).
//
//   npm run bench                                    all scenarios
//   npm run bench -- fan-out start --quick           some, short
//   npm run bench -- --peer opal --json out.jsonl    with OPAL, figures as JSON lines
//   npm run bench -- --against main                  with another revision of this repository
//   npm run bench:check                              short, generous limits, fails when something is much slower
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Fatal, main, run } from './lib/run.mjs';
import { removeStale } from './lib/test-files.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const BUILD = join(ROOT, 'build');

await main(async () => {
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  if (!existsSync(tsc)) throw new Fatal('The dependencies are not installed; run "npm ci" first.');
  removeStale(ROOT, BUILD);
  console.error('compiling into build/ ...');
  const code = await run(process.execPath, [tsc, '-p', 'tsconfig.json'], { cwd: ROOT });
  if (code !== 0) throw new Fatal('The code does not compile; correct the errors above and run again.');
  return run(process.execPath, [join(BUILD, 'bench', 'run.js'), ...process.argv.slice(2)], { cwd: ROOT });
});
