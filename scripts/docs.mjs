// Writes the generated pages of docs/ from the declarations in the code. `--from <folder>` takes code that is compiled
// already; otherwise it is compiled to build/ first.
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(import.meta.dirname);
const { values } = parseArgs({ options: { from: { type: 'string' } } });
const compiled = resolve(values.from ?? join(root, 'build'));

if (values.from === undefined) {
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', join(root, 'tsconfig.json')], { stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}

const { generatedPages } = await import(pathToFileURL(join(compiled, 'scripts/lib/docs-pages.js')).href);
for (const [path, text] of generatedPages()) {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  console.log(`wrote ${path}`);
}
