import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cp, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import { OPA_SHA256 } from '../../src/client/engine/get-opa/opa-version.js';
import { ARTIFACT } from '../../src/embedded/artifact-sums.js';
import { repoRoot } from '../support/repo.js';
import { tempDir } from '../support/temp-dir.js';

const ENGINE = join(repoRoot(), 'engine');
const DIST = join(ENGINE, 'dist');
/** A build without Go's cache is a minute of two cores, and nothing but the source, the settings or Go can change its bytes. */
const NOT_BUILT = 'SYNC_TEST_ENGINE_BUILD=1 npm test -- engine-artifact builds the program again, with the pinned Go';

/** The part of scripts/lib/engine-wasm.mjs that is used here. */
interface EngineWasm {
  buildWasm(folder: string, out: string): Promise<void>;
  sourceSum(folder: string): string;
}

/** The part of scripts/lib/engine-pin.mjs that is used here. */
interface EnginePin {
  pinnedAssets(source: string): string[];
  withPinnedOpa(source: string, version: string, sums: Readonly<Record<string, string>>): string;
}

function script<T>(name: string): Promise<T> {
  return import(pathToFileURL(join(repoRoot(), 'scripts', 'lib', name)).href) as Promise<T>;
}

async function sha256(file: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex');
}

/** Copies what the program is built of; returns the folder. */
async function copyOfSource(to: string): Promise<string> {
  const folder = join(to, 'engine');
  await cp(ENGINE, folder, { recursive: true, filter: (file) => file !== DIST });
  return folder;
}

describe('the artifact of the embedded engine', () => {
  it('has the files whose sums are in the source', async () => {
    for (const [name, sum] of Object.entries(ARTIFACT.sha256)) assert.equal(await sha256(join(DIST, name)), sum, name);
  });

  it('was built from the present source, with the present settings of Go', async () => {
    const { sourceSum } = await script<EngineWasm>('engine-wasm.mjs');
    assert.equal(sourceSum(ENGINE), ARTIFACT.sourceSha256, 'engine/ has changed: npm run engine:build');
  });

  it('is known to be another one after any change of its source', async () => {
    await using dir = await tempDir();
    const folder = await copyOfSource(dir.path);
    const { sourceSum } = await script<EngineWasm>('engine-wasm.mjs');
    assert.equal(sourceSum(folder), ARTIFACT.sourceSha256, 'the folder does not count');
    for (const name of (await readdir(folder)).filter((one) => /\.(go|mod|sum)$/.test(one))) {
      const text = await readFile(join(folder, name), 'utf8');
      await writeFile(join(folder, name), `${text}\n`);
      assert.notEqual(sourceSum(folder), ARTIFACT.sourceSha256, name);
      await writeFile(join(folder, name), text);
    }
    await writeFile(join(folder, 'one_more.go'), 'package main\n');
    assert.notEqual(sourceSum(folder), ARTIFACT.sourceSha256, 'one more file');
  });

  it('names every Go module of go.mod that is in it, with its version, and has its licence', async () => {
    const notice = await readFile(join(DIST, 'NOTICE'), 'utf8');
    const licences = await readFile(join(DIST, 'LICENSES.txt'), 'utf8');
    const modules = [...notice.matchAll(/^- (.*)$/gm)].map(([, name = '']) => name);
    const required = await readFile(join(ENGINE, 'go.mod'), 'utf8');
    assert(modules.length > 20, `only ${modules.length} modules`);
    assert.match(
      modules[0] ?? '',
      new RegExp(`^The Go Programming Language go${ARTIFACT.goVersion.replaceAll('.', '\\.')} `),
    );
    for (const name of modules) {
      assert(licences.includes(`\n${name}\n`), `no licence of ${name}`);
      if (!name.startsWith('The Go ')) assert(required.includes(`${name}\n`) || required.includes(`${name} //`), name);
    }
    assert(modules.includes(`github.com/open-policy-agent/opa v${ARTIFACT.opaVersion}`));
  });

  const skip = process.env.SYNC_TEST_ENGINE_BUILD === '1' ? false : NOT_BUILT;
  it('is what the source gives, byte by byte, in another folder', { timeout: 600_000, skip }, async () => {
    await using dir = await tempDir();
    const folder = await copyOfSource(dir.path);
    const { buildWasm } = await script<EngineWasm>('engine-wasm.mjs');
    const out = join(dir.path, 'opa.wasm');
    await buildWasm(folder, out);
    assert.equal(await sha256(out), ARTIFACT.wasmSha256);
    const packed = await readFile(join(DIST, 'opa.wasm.br'));
    assert(brotliDecompressSync(packed).equals(await readFile(out)), 'the one that ships is the same');
  });
});

describe('an update of OPA', () => {
  it('changes the pinned version and its sums, of which those that are not known are empty, and nothing else', async () => {
    const { pinnedAssets, withPinnedOpa } = await script<EnginePin>('engine-pin.mjs');
    const source = await readFile(join(repoRoot(), 'src', 'client', 'engine', 'get-opa', 'opa-version.ts'), 'utf8');
    assert.deepEqual(pinnedAssets(source), Object.keys(OPA_SHA256));
    const sums = { opa_darwin_amd64: 'a'.repeat(64), 'opa_windows_amd64.exe': 'b'.repeat(64) };
    const changed = withPinnedOpa(source, '9.8.7', sums).split('\n');
    const before = source.split('\n');
    const isPin = (line: string): boolean => /^(?:export const OPA_VERSION = | {2}'?opa_)/.test(line);
    assert.deepEqual(
      changed.filter((line) => !isPin(line)),
      before.filter((line) => !isPin(line)),
    );
    assert.deepEqual(
      changed.filter(isPin).map((line) => line.trim()),
      [
        "export const OPA_VERSION = '9.8.7';",
        `opa_darwin_amd64: '${sums.opa_darwin_amd64}',`,
        ...['opa_darwin_arm64', 'opa_linux_amd64_static', 'opa_linux_arm64_static'].map((asset) => `${asset}: '',`),
        `'opa_windows_amd64.exe': '${sums['opa_windows_amd64.exe']}',`,
      ],
    );
  });
});
