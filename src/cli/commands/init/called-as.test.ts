import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { calledAs, type Invocation, isInNpxCache } from './called-as.js';

const root = mkdtempSync(join(tmpdir(), 'called-as-'));
after(() => rmSync(root, { recursive: true }));

/** A folder with the package in its `node_modules`, and what its package.json depends on. */
function installed(name: string, spec: string): { folder: string; packageFolder: string } {
  const folder = join(root, name);
  const packageFolder = join(folder, 'node_modules', 'policysync');
  mkdirSync(packageFolder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ dependencies: { policysync: spec } }));
  return { folder, packageFolder };
}

const elsewhere = join(root, 'elsewhere');
const own = () => ['node', '/a b/policysync.js'];
const NPX = { npm_command: 'exec' };
const call = (given: Partial<Invocation>): string =>
  calledAs({ env: NPX, folder: elsewhere, packageFolder: '/a b', own, ...given });

describe('the commands that follow', () => {
  it('call the program as a shell does, where npx did not', () => {
    assert.equal(call({ env: {} }), "node '/a b/policysync.js'");
    assert.equal(call({ env: { npm_command: 'run-script' }, own: () => ['policysync'] }), 'policysync');
  });

  it('name the package that npx was given, from any folder', () => {
    const given = (text: string): string => call({ env: { ...NPX, npm_config_package: text } });
    assert.equal(given('./a b.tgz'), `npx --yes --package '${join(process.cwd(), 'a b.tgz')}' policysync`);
    assert.equal(given('policysync@1'), 'npx --yes --package policysync@1 policysync');
  });

  it('are those of npx in the project that has the package, and below it, alone', () => {
    const { folder, packageFolder } = installed('project', '^1.0.0');
    assert.equal(call({ folder, packageFolder }), 'npx policysync');
    assert.equal(call({ folder: join(folder, 'set-up'), packageFolder }), 'npx policysync');
    assert.doesNotMatch(call({ packageFolder }), /npx/);
    const other = installed('project/other', '^1.0.0').folder;
    assert.doesNotMatch(call({ folder: other, packageFolder }), /npx/);
  });

  it('name what the cache of npx has the package from', () => {
    writeFileSync(join(root, 'p.tgz'), '');
    const { packageFolder } = installed('_npx/1', 'file:../../p.tgz');
    assert.equal(call({ packageFolder }), `npx --yes --package ${join(root, 'p.tgz')} policysync`);
    const registry = installed('_npx/2', '^1.0.0').packageFolder;
    assert.equal(call({ packageFolder: registry }), "npx --yes --package 'policysync@^1.0.0' policysync");
    assert.deepEqual([packageFolder, '/a b', '/x/node_modules/policysync'].map(isInNpxCache), [true, false, false]);
  });

  it('name the file of the program where the cache of npx does not say, or its source is gone', () => {
    for (const [name, spec] of [
      ['3', 'file:../../gone.tgz'],
      ['4', undefined],
    ] as const) {
      const { folder, packageFolder } = installed(`_npx/${name}`, spec ?? '');
      if (spec === undefined) writeFileSync(join(folder, 'package.json'), '{}');
      assert.equal(call({ packageFolder }), "node '/a b/policysync.js'", name);
    }
  });
});
