// Breaks everything that can break while publishers write, and holds what comes out against a plain model (docs/internals/faults.md).
//
//   npm run test:faults                              the short form, another seed each time
//   npm run test:faults -- --seed 7 --verbose        a run again, with its timeline
//   npm run test:faults -- --backbone postgres       two server instances over a backbone
//   npm run test:faults -- --backbone nats --only backbone   nothing else fails
//   npm run test:faults -- --long                    30 minutes (also SYNC_TEST_LONG=1)
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compile } from './lib/compile.mjs';
import { main, run } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** Not where "npm test" compiles to: a long run starts its programs again and again, and must find them unchanged. */
const BUILD = '.build-faults';

await main(async () => {
  await compile(ROOT, BUILD, { installed: true });
  return run(process.execPath, [join(ROOT, BUILD, 'test', 'faults', 'run.js'), ...process.argv.slice(2)], {
    cwd: ROOT,
  });
});
