import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Fatal } from './run.mjs';

const exec = promisify(execFile);
const MAX_OUTPUT = 64 * 2 ** 20;

/** Nothing of the machine's Go settings may change the program. */
const GO_ENV = {
  GOOS: 'js',
  GOARCH: 'wasm',
  GOFLAGS: '',
  GOWORK: 'off',
  GOEXPERIMENT: '',
  GOWASM: '',
  CGO_ENABLED: '0',
};
const BUILD_FLAGS = ['-trimpath', '-buildvcs=false', '-ldflags=-s -w'];
const SOURCE = /^go\.(mod|sum)$|(?<!_test)\.go$/;

/** Runs Go in the engine's folder and returns what it prints. */
export async function go(folder, args, env = {}) {
  try {
    const { stdout } = await exec('go', args, {
      cwd: folder,
      env: { ...process.env, ...GO_ENV, ...env },
      maxBuffer: MAX_OUTPUT,
    });
    return stdout.trim();
  } catch (error) {
    if (error.code === 'ENOENT')
      throw new Fatal('Go is needed to build the engine: https://go.dev/dl', { cause: error });
    throw new Fatal(`go ${args.join(' ')} failed: ${error.stderr || error.message}`, { cause: error });
  }
}

/** The version of Go that the engine is built with: `1.26.8`. */
export function pinnedGo(folder) {
  return /^go (\S+)$/m.exec(readFileSync(join(folder, 'go.mod'), 'utf8'))[1];
}

/** Rejects unless Go has the pinned version: another one makes another program. */
export async function checkGo(folder) {
  const version = await go(folder, ['env', 'GOVERSION'], { GOTOOLCHAIN: 'local' });
  const pinned = `go${pinnedGo(folder)}`;
  if (version !== pinned) throw new Fatal(`Go is ${version}; the engine is built with ${pinned} (engine/go.mod).`);
}

/** Builds the program; the same source and Go give the same bytes, in any folder. */
export async function buildWasm(folder, out) {
  await checkGo(folder);
  await go(folder, ['build', ...BUILD_FLAGS, '-o', out, '.'], { GOTOOLCHAIN: 'local' });
}

/** SHA-256 of all that {@link buildWasm} makes the program of: the files with their names, and the settings of Go. */
export function sourceSum(folder) {
  const sum = createHash('sha256').update(JSON.stringify([GO_ENV, BUILD_FLAGS]));
  const names = readdirSync(folder).filter((name) => SOURCE.test(name));
  for (const name of names.sort()) {
    const file = createHash('sha256').update(readFileSync(join(folder, name)));
    sum.update(`\n${name} ${file.digest('hex')}`);
  }
  return sum.digest('hex');
}
