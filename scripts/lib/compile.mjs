import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { Fatal, run } from './run.mjs';
import { removeStale } from './test-files.mjs';

/**
 * Compiles everything, tests and bench too, into a folder of the repository. `programs`: also the package's programs as
 * they are shipped, into `package/` there, for tests that start them.
 */
export async function compile(root, folder, { programs = false } = {}) {
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  if (!existsSync(tsc)) throw new Fatal('The dependencies are not installed; run "npm ci" first.');
  const out = join(root, folder);
  for (const file of removeStale(root, out)) console.error(`removed ${folder}/${file}: its source is gone`);
  console.error(`compiling into ${folder}/ ...`);
  const into = ['--outDir', out, '--tsBuildInfoFile', join(out, '.tsbuildinfo')];
  const code = await run(process.execPath, [tsc, '-p', 'tsconfig.json', ...into], { cwd: root });
  if (code !== 0) throw new Fatal('The code does not compile; correct the errors above and run again.');
  if (programs) await build(root, { out: join(out, 'package'), types: false, unbundled: false });
}
