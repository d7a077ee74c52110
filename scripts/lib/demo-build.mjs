import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { duration } from './demo-print.mjs';
import { Fatal } from './run.mjs';

/** What package.json says under `engines`. */
const NODE_AT_LEAST = [20, 19];

/** Fails where Node is too old or the dependencies are missing. */
export function checkMachine(root) {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [leastMajor, leastMinor] = NODE_AT_LEAST;
  if (major < leastMajor || (major === leastMajor && minor < leastMinor)) {
    throw new Fatal(
      `This is Node ${process.versions.node}; install Node 24 (26, 22 and ${NODE_AT_LEAST.join('.')} work, too) from https://nodejs.org.`,
    );
  }
  if (!existsSync(compilerOf(root))) {
    throw new Fatal('The dependencies are not installed; run "npm ci" and then the demo again.');
  }
}

/** Builds the programs in `dist/`; the types of the library, which take most of the time, are for those who use it. */
export async function compile(root, { print, processes }) {
  const startedMs = performance.now();
  const compiling = processes.run(process.execPath, [join(root, 'scripts', 'build.mjs'), '--no-types'], { cwd: root });
  const { code, output } = await print.working('compiling', compiling);
  if (code !== 0) throw new Fatal(`The code does not compile; correct this and run the demo again:\n${output}`);
  print.line(`compiled src/ into dist/ in ${duration(performance.now() - startedMs)}`);
}

/**
 * Path of an OPA, found or made by the product's own module. `tempDir` takes the work of a Go build, which stays behind
 * when Go is interrupted and does not end soon.
 */
export async function findOpa(root, { print, signal, tempDir }) {
  const load = (file) => import(pathToFileURL(join(root, 'dist', 'client', 'engine', file)));
  const { acquireOpa } = await load('acquire-opa.js');
  const { progressPrinter } = await load('acquire-progress.js');
  try {
    const { path } = await acquireOpa({
      execPath: process.env.SYNC_INLINE_ENGINE_EXEC_PATH || undefined,
      env: { GOTMPDIR: tempDir, ...process.env },
      allowDownload: true,
      signal,
      onProgress: progressPrinter(print.indented),
    });
    return path;
  } catch (error) {
    signal.throwIfAborted();
    throw new Fatal(`The demo needs OPA: ${error.message}`, { cause: error });
  }
}

function compilerOf(root) {
  return join(root, 'node_modules', 'typescript', 'bin', 'tsc');
}
