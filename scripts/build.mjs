// Builds the package: the types of src/, and its programs and library in few files.
//
//   npm run build                            into dist/
//   npm run build -- --out <folder>          into another folder
//   npm run build -- --no-types              without the types, which take the most time
//   npm run build -- --unbundled             one file for each module, as it is where esbuild is missing
//   npm run build -- --to-ship               fails where esbuild is missing: the package has to bring what it needs
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from './lib/build.mjs';
import { Fatal, main } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

function options() {
  try {
    const flag = { type: 'boolean', default: false };
    const options = { out: { type: 'string' }, 'no-types': flag, unbundled: flag, 'to-ship': flag };
    const { values } = parseArgs({ options });
    const { out = join(ROOT, 'dist'), unbundled, 'to-ship': toShip } = values;
    return { out: resolve(out), types: !values['no-types'], unbundled, toShip };
  } catch (error) {
    throw new Fatal(`${error.message}; there are --out, --no-types, --unbundled and --to-ship.`, { cause: error });
  }
}

await main(async () => {
  await build(ROOT, options());
  return 0;
});
