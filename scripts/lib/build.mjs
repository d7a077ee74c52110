import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { bundle, loadEsbuild, writeLicences } from './bundle.mjs';
import { copyDocsUi } from './docs-ui.mjs';
import { keepPublicTypes } from './public-types.mjs';
import { Fatal } from './run.mjs';
import { tsc } from './tsc.mjs';
import { buildUi } from './ui.mjs';

/**
 * Writes the package's code and the live page into `out`, which it replaces once everything has gone well. Without esbuild it works
 * in a checkout alone, which has the packages that are bundled otherwise; `toShip` fails then.
 */
export async function build(root, { out, types, unbundled, toShip = false }) {
  const esbuild = unbundled ? undefined : await loadEsbuild();
  if (esbuild === undefined && toShip) throw new Fatal('The package is bundled by esbuild, which cannot be run here.');
  if (esbuild === undefined && !unbundled) {
    console.error('esbuild cannot be run here: the code is not bundled, and starts slower');
  }
  const made = join(dirname(out), `.${basename(out)}-${process.pid}`);
  mkdirSync(made, { recursive: true });
  try {
    const code =
      esbuild === undefined
        ? compile(root, made)
        : Promise.all([bundle(esbuild, root, made), types && compile(root, made, '--emitDeclarationOnly')]);
    const [bundled, page] = await Promise.all([code, buildUi(root, join(made, 'ui'), { toShip })]);
    if (bundled !== undefined) writeLicences(made, [...bundled[0], ...page]);
    if (types && esbuild !== undefined) keepPublicTypes(root, made);
    copyDocsUi(root, made);
    rmSync(out, { recursive: true, force: true });
    renameSync(made, out);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

async function compile(root, out, ...flags) {
  await tsc(root, '-p', 'tsconfig.build.json', '--outDir', out, ...flags);
}
