import assert from 'node:assert/strict';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { repoRoot } from '../../test/support/repo.js';
import { OPA_VERSION } from '../client/engine/get-opa/opa-version.js';
import { SyncError } from '../lib/errors.js';
import { EngineArtifact } from './artifact.js';
import { ARTIFACT } from './artifact-sums.js';

const DIST = join(repoRoot(), 'engine', 'dist');

describe('the artifact of the embedded engine', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'artifact-'));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it('is the OPA that the inline engine runs', () => {
    assert.equal(ARTIFACT.opaVersion, OPA_VERSION);
  });

  it('is found in the package, compiled once, and again after its release', async () => {
    const artifact = new EngineArtifact();
    const first = await artifact.load();
    assert(first.module instanceof WebAssembly.Module);
    assert.equal(await artifact.load(), first);
    artifact.release();
    assert.notEqual(await artifact.load(), first);
  });

  it('names a file that is missing, and what to do', async () => {
    await copyFile(join(DIST, 'wasm_exec.js'), join(folder, 'wasm_exec.js'));
    await assert.rejects(new EngineArtifact(folder).load(), (error) => {
      assert(error instanceof SyncError);
      assert.equal(error.code, 'engine_artifact_invalid');
      assert.match(
        error.message,
        /opa\.wasm\.br of the embedded engine cannot be read \(ENOENT.*: install the package again$/,
      );
      return true;
    });
  });

  it('does not run a file with another sum', async () => {
    await writeFile(join(folder, 'opa.wasm.br'), 'something else');
    await assert.rejects(new EngineArtifact(folder).load(), /opa\.wasm\.br of the embedded engine has SHA-256 /);
  });
});
