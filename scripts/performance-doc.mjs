// Writes docs/internals/performance.md from the JSON lines of a run:
//
//   npm run bench -- --peer opal --json out.jsonl
//   node scripts/performance-doc.mjs out.jsonl
//
// The lines are kept as bench/measured.jsonl; without an argument the page is made of these again, after a change of its
// words (bench/performance.md) or its form (bench/lib/performance-page.ts). `--from <folder>` takes code that is compiled already.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(import.meta.dirname);
const { values, positionals } = parseArgs({ options: { from: { type: 'string' } }, allowPositionals: true });
const compiled = resolve(values.from ?? join(root, 'build'));

if (values.from === undefined) {
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status } = spawnSync(process.execPath, [compiler, '-p', join(root, 'tsconfig.json')], { stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}

const page = await import(pathToFileURL(join(compiled, 'bench/lib/performance-page.js')).href);
const kept = join(root, page.PERFORMANCE_RUN);
const lines = readFileSync(positionals[0] ?? kept, 'utf8');
const text = page.performancePage(readFileSync(join(root, page.PERFORMANCE_TEXT), 'utf8'), lines);
writeFileSync(kept, lines);
writeFileSync(join(root, page.PERFORMANCE_PAGE), text);
console.log(`wrote ${page.PERFORMANCE_PAGE} and ${page.PERFORMANCE_RUN}`);
