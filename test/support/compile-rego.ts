import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { testOpa } from './opa.js';
import { tempDir } from './temp-dir.js';

const run = promisify(execFile);

/** Compiles a module of Rego to WebAssembly with OPA's program, for tests of what evaluates it. */
export async function compileRego(rego: string, entrypoints: readonly string[]): Promise<WebAssembly.Module> {
  return new WebAssembly.Module(await compiledRego(rego, entrypoints));
}

/** The bytes of {@link compileRego}. */
export async function compiledRego(rego: string, entrypoints: readonly string[]): Promise<Uint8Array> {
  await using folder = await tempDir();
  const source = join(folder.path, 'policy.rego');
  const bundle = join(folder.path, 'bundle.tar.gz');
  await writeFile(source, rego);
  const wanted = entrypoints.flatMap((entrypoint) => ['-e', entrypoint]);
  await run(await testOpa(), ['build', '-t', 'wasm', ...wanted, '-o', bundle, source]);
  const { stdout } = await run('tar', ['-xzOf', bundle, '/policy.wasm'], { encoding: 'buffer', maxBuffer: 2 ** 26 });
  return stdout;
}
