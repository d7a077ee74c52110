// Builds the three container images without a container engine, and tries them out: with buildah of Debian, as root. The base images,
// which come from a registry elsewhere, are made of Debian's packages, Node and Go here; all else is as the container files say.
//
//   npm run images               builds the images and tries them out
//   npm run images -- --keep     tries out what was built before
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { IMAGES, ImageBuilder } from './lib/image-builder.mjs';
import { tryImages } from './lib/image-trial.mjs';
import { Fatal, main, run } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** Set in the namespace of mounts that is this script's own: nothing stays mounted after it. */
const OWN_MOUNTS = 'SYNC_IMAGES_OWN_MOUNTS';

await main(async () => {
  const flags = process.argv.slice(2);
  const unknown = flags.find((flag) => flag !== '--keep');
  if (unknown !== undefined) throw new Fatal(`Unknown argument ${unknown}; there is --keep.`);
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/dpkg')) {
    throw new Fatal('The images are built here by Debian programs as root: run it on Debian as root, or use Docker.');
  }
  if (process.env[OWN_MOUNTS] !== '1') {
    const args = ['--mount', process.execPath, fileURLToPath(import.meta.url), ...flags];
    return await run('unshare', args, { env: { ...process.env, [OWN_MOUNTS]: '1' } });
  }
  const builder = await ImageBuilder.prepare();
  if (!flags.includes('--keep')) {
    for (const image of IMAGES) await builder.build(ROOT, image);
  }
  await tryImages(builder);
  return 0;
});
