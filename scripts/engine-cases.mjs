// Packs OPA's own conformance cases into test/conformance/cases.json.br, from the version of OPA in engine/go.mod.
//
//   npm run engine:cases
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants } from 'node:zlib';
import { go } from './lib/engine-wasm.mjs';
import { main } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const FILE = join(ROOT, 'test', 'conformance', 'cases.json.br');

await main(async () => {
  const text = await go(join(ROOT, 'engine'), ['run', './cases'], { GOOS: '', GOARCH: '' });
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY, [constants.BROTLI_PARAM_LGWIN]: 24 };
  writeFileSync(FILE, brotliCompressSync(text, { params }));
  console.log(`test/conformance/cases.json.br has ${JSON.parse(text).cases.length} cases`);
  return 0;
});
