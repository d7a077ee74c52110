import { join } from 'node:path';
import { copyDocsUi } from './docs-ui.mjs';
import { installPackage } from './install-package.mjs';
import { removeStale } from './test-files.mjs';
import { tsc } from './tsc.mjs';
import { keepUiCurrent } from './ui.mjs';

/**
 * Compiles everything, tests and bench too, into a folder of the repository. `installed`: also installs the package as it
 * ships into `installed/` there, for tests that start its programs or import its library.
 */
export async function compile(root, folder, { installed = false } = {}) {
  const out = join(root, folder);
  for (const file of removeStale(root, out)) console.error(`removed ${folder}/${file}: its source is gone`);
  console.error(`compiling into ${folder}/ ...`);
  copyDocsUi(root, join(out, 'src'));
  await Promise.all([
    tsc(root, '-p', 'tsconfig.json', '--outDir', out, '--tsBuildInfoFile', join(out, '.tsbuildinfo')),
    keepUiCurrent(root, join(out, 'src', 'ui')),
    installed && installPackage(root, join(out, 'installed')),
  ]);
}
