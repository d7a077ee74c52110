// Breaks everything that can break while publishers write, and holds what comes out against a plain model (docs/faults.md).
//
//   npm run test:faults                              the short form, another seed each time
//   npm run test:faults -- --seed 7 --verbose        a run again, with its timeline
//   npm run test:faults -- --backbone postgres       two server instances over a backbone
//   npm run test:faults -- --long                    30 minutes (also SYNC_TEST_LONG=1)
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Fatal, main, run } from './lib/run.mjs';
import { removeStale } from './lib/test-files.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** Not where "npm test" compiles to: a long run starts its programs again and again, and must find them unchanged. */
const BUILD = '.build-faults';

await main(async () => {
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  if (!existsSync(tsc)) throw new Fatal('The dependencies are not installed; run "npm ci" first.');
  removeStale(ROOT, join(ROOT, BUILD));
  console.log(`compiling into ${BUILD}/ ...`);
  const into = ['--outDir', BUILD, '--tsBuildInfoFile', join(BUILD, '.tsbuildinfo')];
  const code = await run(process.execPath, [tsc, '-p', 'tsconfig.json', ...into], { cwd: ROOT });
  if (code !== 0) throw new Fatal('The code does not compile; correct the errors above and run again.');
  return run(process.execPath, [join(ROOT, BUILD, 'test', 'faults', 'run.js'), ...process.argv.slice(2)], {
    cwd: ROOT,
  });
});
