import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { Fatal } from './run.mjs';
import { filesBelow } from './test-files.mjs';

/** What the live page is made of, besides the packages of the lock file. */
const SOURCES = ['ui', 'src/fleet-rules', 'src/wire'];

/** vite, or undefined where it is not installed or not for this platform. */
async function loadVite() {
  try {
    return await import('vite');
  } catch {
    return undefined; // the caller does without the page
  }
}

/**
 * Builds the live page (`ui/`) into `folder`: each file as `.br`, which takes a server long to make, and the assets as nothing else,
 * which keeps the package small. Returns the paths of all modules that went in; none where vite cannot be run, and the server then says so at `/ui`.
 * `toShip` fails then.
 */
export async function buildUi(root, folder, { toShip = false } = {}) {
  const vite = await loadVite();
  if (vite === undefined) {
    if (toShip) throw new Fatal('The live page is built by vite, which cannot be run here.');
    console.error('vite cannot be run here: there is no live page at /ui');
    rmSync(folder, { recursive: true, force: true });
    return [];
  }
  const { output } = await vite.build({
    configFile: join(root, 'ui', 'vite.config.ts'),
    // How long plugins take depends on what else the machine does.
    build: { outDir: folder, rolldownOptions: { checks: { pluginTimings: false } } },
    logLevel: 'warn',
  });
  for (const file of filesBelow(folder)) {
    compress(join(folder, file));
    if (file.startsWith('assets/')) rmSync(join(folder, file));
  }
  return output.flatMap(({ moduleIds = [] }) => moduleIds);
}

function compress(path) {
  const content = readFileSync(path);
  // The distances of minified code repeat in pairs.
  const quality = {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_NPOSTFIX]: 1,
  };
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params: quality }));
}

/** Does the same for a folder that is kept: nothing where it has been made of what is there now. */
export async function keepUiCurrent(root, folder) {
  const key = uiKey(root);
  const keyFile = join(folder, '.made-of');
  if (existsSync(keyFile) && readFileSync(keyFile, 'utf8') === key) return;
  await buildUi(root, folder);
  if (existsSync(folder)) writeFileSync(keyFile, key);
}

function uiKey(root) {
  const hash = createHash('sha256');
  for (const file of ['package-lock.json', 'scripts/lib/ui.mjs', ...uiSources(root)]) {
    const content = readFileSync(join(root, file));
    hash.update(`${file} ${content.length}\n`).update(content);
  }
  return hash.digest('hex');
}

/** Every file of ours that can change the page. */
export function uiSources(root) {
  return SOURCES.flatMap((folder) => filesBelow(join(root, folder)).map((file) => `${folder}/${file}`)).filter(
    (file) => !/\.test\.tsx?$/.test(file),
  );
}
