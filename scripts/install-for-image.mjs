// Installs the package as it ships into a folder of a container image: packed, with the versions of the lock file.
//
//   node scripts/install-for-image.mjs /opt/policysync
import { readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPackage } from './lib/install-package.mjs';
import { Fatal, main } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

await main(async () => {
  const [folder, ...more] = process.argv.slice(2);
  if (folder === undefined || more.length > 0) throw new Fatal('Give the folder to install into, and nothing else.');
  await installPackage(ROOT, folder);
  // What only a second installation would need.
  for (const name of readdirSync(folder)) {
    if (name === '.made-of' || name.endsWith('.tgz')) rmSync(join(folder, name));
  }
  return 0;
});
