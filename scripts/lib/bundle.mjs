import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** What the package is started from or imported by: each file of the output and its source. */
const ENTRIES = {
  index: 'src/index.ts',
  'middleware/express': 'src/middleware/express.ts',
  'middleware/fastify': 'src/middleware/fastify.ts',
  'cli/server': 'src/cli/server.ts',
  'cli/client': 'src/cli/client.ts',
  // Beside the chunk that starts it, by its name (sqlite-thread.ts).
  'chunks/sqlite-worker': 'src/server/log/sqlite-worker.ts',
  'chunks/artifact-worker': 'src/embedded/artifact-worker.ts',
  'chunks/go-child': 'src/embedded/go/go-child.ts',
  'chunks/go-worker': 'src/embedded/go/go-worker.ts',
  'chunks/evaluator-worker': 'src/embedded/evaluator/evaluator-worker.ts',
  // For the demo.
  'client/engine/acquire-opa': 'src/client/engine/acquire-opa.ts',
};

/** Packages that every start loads: they go in. All others stay packages, and are loaded when they are needed. */
const BUNDLED = ['commander', 'fastify', 'pino', 'tar-stream', 'undici', 'ws', 'zod'];

/** CommonJS packages ask for Node's modules by `require`, which an ES module does not have. */
const REQUIRE = "import{createRequire as requireOf}from'node:module';const require=requireOf(import.meta.url);";

/** esbuild, or undefined where it is not installed or not for this platform. */
export async function loadEsbuild() {
  try {
    const esbuild = await import('esbuild');
    await esbuild.transform(''); // starts its program
    return esbuild;
  } catch {
    return undefined; // the caller builds without it
  }
}

/**
 * Puts the programs and the library into few files below `out`: a start then reads tens of files and not hundreds, which
 * takes half the time. Line breaks go, names stay, so that stack traces can be read. The licences of the packages that
 * went in are in `out/THIRD-PARTY-LICENSES.txt`.
 */
export async function bundle(esbuild, root, out) {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const { metafile } = await esbuild.build({
    absWorkingDir: root,
    entryPoints: ENTRIES,
    outdir: out,
    chunkNames: 'chunks/[name]-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    external: Object.keys(dependencies).filter((name) => !BUNDLED.includes(name)),
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 200,
    legalComments: 'inline',
    banner: { js: REQUIRE },
    metafile: true,
    logLevel: 'warning',
  });
  const folders = new Set(Object.keys(metafile.inputs).map((file) => packageFolder(resolve(root, file))));
  folders.delete(undefined);
  writeFileSync(join(out, 'THIRD-PARTY-LICENSES.txt'), [...folders].sort().map(licence).join('\n'));
}

/** The folder of the package that a file belongs to; undefined for files of ours. */
function packageFolder(file) {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file.replaceAll('\\', '/'))?.[0];
}

function licence(folder) {
  const { name, version, license, author, homepage } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const texts = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
    .map((file) => readFileSync(join(folder, file), 'utf8').trim());
  if (texts.length === 0)
    texts.push(`Copyright ${author?.name ?? author}, ${homepage}. The package has no licence file.`);
  return `${'='.repeat(80)}\n${name} ${version}, ${license}\n\n${texts.join('\n\n')}\n`;
}
