import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { OPA_SHA256 } from '../../src/client/engine/opa-version.js';
import { ARTIFACT } from '../../src/embedded/artifact-sums.js';
import { repoRoot } from '../support/repo.js';
import { tempDir } from '../support/temp-dir.js';

const ENGINE = join(repoRoot(), 'engine');
const DIST = join(ENGINE, 'dist');

/** The part of scripts/lib/engine-wasm.mjs that is used here. */
interface EngineWasm {
  buildWasm(folder: string, out: string): Promise<void>;
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

/** Why the program cannot be built here; undefined if it can. */
async function reasonNotToBuild(): Promise<string | undefined> {
  const pinned = `go${ARTIFACT.goVersion}`;
  try {
    const { stdout } = await promisify(execFile)('go', ['env', 'GOVERSION'], {
      env: { ...process.env, GOTOOLCHAIN: 'local' },
    });
    const found = stdout.trim();
    return found === pinned ? undefined : `Go is ${found}, and the engine is built with ${pinned}`;
  } catch {
    return `there is no Go here; the engine is built with ${pinned}`;
  }
}

describe('the artifact of the embedded engine', () => {
  it('has the files whose sums are in the source', async () => {
    for (const [name, sum] of Object.entries(ARTIFACT.sha256)) assert.equal(await sha256(join(DIST, name)), sum, name);
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

  it('is what the source gives, byte by byte, in another folder', { timeout: 600_000 }, async (context) => {
    const reason = await reasonNotToBuild();
    if (reason !== undefined) {
      context.skip(reason);
      return;
    }
    await using dir = await tempDir();
    const folder = join(dir.path, 'engine');
    await cp(ENGINE, folder, { recursive: true, filter: (file) => file !== DIST });
    const { buildWasm } = await script<EngineWasm>('engine-wasm.mjs');
    const out = join(dir.path, 'opa.wasm');
    await buildWasm(folder, out);
    assert.equal(await sha256(out), ARTIFACT.wasmSha256);
  });
});

describe('an update of OPA', () => {
  it('changes the pinned version and the sums that are known, and nothing else', async () => {
    const { pinnedAssets, withPinnedOpa } = await script<EnginePin>('engine-pin.mjs');
    const source = await readFile(join(repoRoot(), 'src', 'client', 'engine', 'opa-version.ts'), 'utf8');
    assert.deepEqual(pinnedAssets(source), Object.keys(OPA_SHA256));
    const sums = { opa_darwin_amd64: 'a'.repeat(64), 'opa_windows_amd64.exe': 'b'.repeat(64) };
    const changed = withPinnedOpa(source, '9.8.7', sums).split('\n');
    const lines = source.split('\n').flatMap((line, at) => (line === changed[at] ? [] : [changed[at]?.trim()]));
    assert.deepEqual(lines, [
      "export const OPA_VERSION = '9.8.7';",
      `opa_darwin_amd64: '${sums.opa_darwin_amd64}',`,
      `'opa_windows_amd64.exe': '${sums['opa_windows_amd64.exe']}',`,
    ]);
  });
});
