import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { bundle, loadEsbuild } from './bundle.mjs';
import { copyDocsUi } from './docs-ui.mjs';
import { tsc } from './tsc.mjs';

/** Writes the package's code into `out`, which it replaces once everything has gone well. */
export async function build(root, { out, types, unbundled }) {
  const esbuild = unbundled ? undefined : await loadEsbuild();
  if (esbuild === undefined && !unbundled) {
    console.error('esbuild cannot be run here: the code is not bundled, and starts slower');
  }
  const made = join(dirname(out), `.${basename(out)}-${process.pid}`);
  mkdirSync(made, { recursive: true });
  try {
    if (esbuild === undefined) await compile(root, made);
    else await Promise.all([bundle(esbuild, root, made), types && compile(root, made, '--emitDeclarationOnly')]);
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
