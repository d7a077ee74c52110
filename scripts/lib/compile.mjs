import { join } from 'node:path';
import { build } from './build.mjs';
import { removeStale } from './test-files.mjs';
import { tsc } from './tsc.mjs';

/**
 * Compiles everything, tests and bench too, into a folder of the repository. `programs`: also the package's programs as
 * they are shipped, into `package/` there, for tests that start them.
 */
export async function compile(root, folder, { programs = false } = {}) {
  const out = join(root, folder);
  for (const file of removeStale(root, out)) console.error(`removed ${folder}/${file}: its source is gone`);
  console.error(`compiling into ${folder}/ ...`);
  await tsc(root, '-p', 'tsconfig.json', '--outDir', out, '--tsBuildInfoFile', join(out, '.tsbuildinfo'));
  if (programs) await build(root, { out: join(out, 'package'), types: false, unbundled: false });
}
