import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Fatal, run } from './run.mjs';

/** Runs the TypeScript compiler of the project; fails with what to do where it is missing or finds errors. */
export async function tsc(root, ...args) {
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  if (!existsSync(compiler)) throw new Fatal('The dependencies are not installed; run "npm ci" first.');
  const code = await run(process.execPath, [compiler, ...args], { cwd: root });
  if (code !== 0) throw new Fatal('The code does not compile; correct the errors above and run again.');
}
