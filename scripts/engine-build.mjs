// Builds the embedded engine from engine/: the program, Go's JavaScript for it, notices, and the sums in the source.
//
//   npm run engine:build                        into engine/dist/ and src/embedded/artifact-sums.ts
//   npm run engine:build -- --quick             the same in seconds, but larger: to try a change, not to commit it
//   npm run engine:build -- --wasm <file>       only the program, not compressed
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { brotliCompress, constants } from 'node:zlib';
import { notices } from './lib/engine-notices.mjs';
import { buildWasm, go, pinnedGo, sourceSum } from './lib/engine-wasm.mjs';
import { Fatal, main } from './lib/run.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const ENGINE = join(ROOT, 'engine');
const DIST = join(ENGINE, 'dist');
const SUMS = join(ROOT, 'src', 'embedded', 'artifact-sums.ts');

function options() {
  try {
    return parseArgs({ options: { wasm: { type: 'string' }, quick: { type: 'boolean', default: false } } }).values;
  } catch (error) {
    throw new Fatal(`${error.message}; there are --quick and --wasm <file>.`, { cause: error });
  }
}

function sha256(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}

/** The smallest that Node's Brotli makes, which takes two minutes; `isQuick`: half as large again, in a second. */
function compress(wasm, isQuick) {
  return promisify(brotliCompress)(wasm, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: isQuick ? 3 : constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
      [constants.BROTLI_PARAM_SIZE_HINT]: wasm.length,
    },
  });
}

async function opaVersion() {
  const version = await go(ENGINE, ['list', '-m', '-f', '{{.Version}}', 'github.com/open-policy-agent/opa']);
  return version.replace(/^v/, '');
}

function sumsSource({ opa, wasm, packed, exec }) {
  return `// Written by "npm run engine:build": do not edit.

/** The artifact of the embedded engine that belongs to this code. */
export const ARTIFACT = {
  opaVersion: '${opa}',
  goVersion: '${pinnedGo(ENGINE)}',
  /** Of the source that it is built of, with the settings of Go. */
  sourceSha256: '${sourceSum(ENGINE)}',
  sha256: {
    'opa.wasm.br': '${sha256(packed)}',
    'wasm_exec.js': '${sha256(exec)}',
  },
  /** Of the program inside \`opa.wasm.br\`. */
  wasmSha256: '${sha256(wasm)}',
  wasmBytes: ${wasm.length},
} as const;
`;
}

async function buildAll(isQuick) {
  const scratch = mkdtempSync(join(tmpdir(), 'policysync-engine-'));
  try {
    const file = join(scratch, 'opa.wasm');
    console.log('building the program ...');
    await buildWasm(ENGINE, file);
    const wasm = readFileSync(file);
    console.log(`compressing ${wasm.length} bytes${isQuick ? '' : ', which takes minutes'} ...`);
    const [packed, texts, goRoot] = await Promise.all([
      compress(wasm, isQuick),
      notices(ENGINE),
      go(ENGINE, ['env', 'GOROOT']),
    ]);
    mkdirSync(DIST, { recursive: true });
    writeFileSync(join(DIST, 'opa.wasm.br'), packed);
    copyFileSync(join(goRoot, 'lib', 'wasm', 'wasm_exec.js'), join(DIST, 'wasm_exec.js'));
    writeFileSync(join(DIST, 'NOTICE'), texts.notice);
    writeFileSync(join(DIST, 'LICENSES.txt'), texts.licences);
    const exec = readFileSync(join(DIST, 'wasm_exec.js'));
    writeFileSync(SUMS, sumsSource({ opa: await opaVersion(), wasm, packed, exec }));
    console.log(`engine/dist/opa.wasm.br has ${packed.length} bytes`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

await main(async () => {
  const { wasm, quick } = options();
  if (wasm === undefined) await buildAll(quick);
  else await buildWasm(ENGINE, resolve(wasm));
  return 0;
});
