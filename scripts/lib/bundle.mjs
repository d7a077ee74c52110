import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

/** What the package is started from or imported by: each file of the output and its source. */
const ENTRIES = {
  index: 'src/index.ts',
  'middleware/express': 'src/middleware/express.ts',
  'middleware/fastify': 'src/middleware/fastify.ts',
  'cli/server': 'src/cli/server.ts',
  'cli/client': 'src/cli/client.ts',
  'cli/policysync': 'src/cli/policysync.ts',
  // Beside the chunk that starts it, by its name (sqlite-store.ts).
  'chunks/sqlite-worker': 'src/server/log/sqlite/sqlite-worker.ts',
  'chunks/artifact-worker': 'src/embedded/artifact-worker.ts',
  'chunks/go-child': 'src/embedded/go/go-child.ts',
  'chunks/go-worker': 'src/embedded/go/go-worker.ts',
  'chunks/checker-child': 'src/checker/checker-child.ts',
  'chunks/checker-worker': 'src/checker/checker-worker.ts',
  'chunks/evaluator-worker': 'src/embedded/evaluator/evaluator-worker.ts',
};

/** What is loaded at once where it is needed, by `require`: CommonJS, since a module of ES cannot wait for an import there. */
const REQUIRED = { 'chunks/pino-pretty': 'src/lib/observe/pino-pretty.cts', 'chunks/yaml': 'src/lib/json/yaml.cts' };

/** CommonJS packages ask for Node's modules by `require`, which an ES module does not have. */
const REQUIRE = "import{createRequire as requireOf}from'node:module';const require=requireOf(import.meta.url);";

/**
 * Imports of `node:http` become calls of `require`. An import looks at each name that a module exports, and at one of this one Node 24
 * loads its own copy of undici, which the programs do not use: 5 MB of a server at rest.
 */
const HTTP_REQUIRED = {
  name: 'http-required',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(?:node:)?http$/ }, ({ kind, path }) =>
      kind === 'import-statement' ? { path, namespace: 'required' } : undefined,
    );
    onLoad({ filter: /./, namespace: 'required' }, ({ path }) => ({
      contents: `module.exports = require(${JSON.stringify(path)});`,
    }));
  },
};

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
 * takes half the time. Every package goes in but the native one and the optional peers: those that few starts need as files of
 * their own, which are read when they are needed. Line breaks go, names stay, so that stack traces can be read. Returns the
 * paths of all modules that went in, for {@link writeLicences}.
 */
export async function bundle(esbuild, root, out) {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const options = {
    absWorkingDir: root,
    outdir: out,
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    external: Object.keys({ ...dependencies, ...peerDependencies }),
    minifyWhitespace: true,
    minifySyntax: true,
    lineLimit: 200,
    legalComments: 'inline',
    metafile: true,
    logLevel: 'warning',
  };
  const built = await Promise.all([
    esbuild.build({
      ...options,
      entryPoints: ENTRIES,
      chunkNames: 'chunks/[name]-[hash]',
      splitting: true,
      format: 'esm',
      banner: { js: REQUIRE },
      plugins: [HTTP_REQUIRED],
    }),
    esbuild.build({ ...options, entryPoints: REQUIRED, format: 'cjs', outExtension: { '.js': '.cjs' } }),
  ]);
  return built.flatMap(({ metafile }) => Object.keys(metafile.inputs).map((file) => resolve(root, file)));
}

/** Writes the licences of the packages that these modules are of into `out/THIRD-PARTY-LICENSES.txt`. */
export function writeLicences(out, modules) {
  const folders = new Set(modules.map(packageFolder));
  folders.delete(undefined);
  writeFileSync(join(out, 'THIRD-PARTY-LICENSES.txt'), [...folders].sort().map(licence).join('\n'));
}

/** The folder of the package that a file belongs to; undefined for files of ours. */
function packageFolder(file) {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file.replaceAll('\\', '/'))?.[0];
}

function licence(folder) {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const { name, version, license, author, repository, homepage = repository?.url ?? repository } = manifest;
  const texts = readdirSync(folder)
    .filter((file) => /^(licen[cs]e|notice|copying)/i.test(file))
    .map((file) => readFileSync(join(folder, file), 'utf8').trim());
  if (texts.length === 0)
    texts.push(`Copyright ${author?.name ?? author}, ${homepage}. The package has no licence file.`);
  return `${'='.repeat(80)}\n${name} ${version}, ${license}\n\n${texts.join('\n\n')}\n`;
}
