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

/** Path of an OPA program on this machine, found by the product's own module; undefined if there is none. */
export async function findOpa(root, { print, signal }) {
  const load = (file) => import(pathToFileURL(join(root, 'dist', 'client', 'engine', file)));
  const { acquireOpa } = await load('acquire-opa.js');
  const execPath = process.env.SYNC_INLINE_ENGINE_EXEC_PATH || undefined;
  try {
    const { path, version } = await acquireOpa({ execPath, env: process.env, allowDownload: false, signal });
    print.line(`OPA ${version} at ${path}, as a child process of the client`);
    return path;
  } catch (error) {
    signal.throwIfAborted();
    if (error.code !== 'engine_not_found') throw new Fatal(error.message, { cause: error });
    print.line('OPA inside the process of the client: there is no OPA program on this machine, and none is needed');
    return undefined;
  }
}

function compilerOf(root) {
  return join(root, 'node_modules', 'typescript', 'bin', 'tsc');
}
