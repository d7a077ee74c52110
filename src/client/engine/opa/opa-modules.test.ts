import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineRefusal } from '../../../embedded/vocabulary.js';
import { silentLogger } from '../../../lib/observe/log.js';
import { isEnginesOwn, isLoadedFrom, removeModules } from './opa-modules.js';

test('what OPA loads from its command line is told from what was put into it', () => {
  const files = ['file:///etc/opa/authz.rego', './more', '/srv/policies/'];
  const rows: [string, boolean][] = [
    ['etc/opa/authz.rego', true],
    ['/etc/opa/authz.rego', true],
    ['more/sub/p.rego', true],
    ['./more', true],
    ['moreover/p.rego', false],
    ['srv/policies/a.rego', true],
    ['policies/a.rego', false],
    ['by/hand', false],
  ];
  for (const [id, is] of rows) assert.equal(isLoadedFrom(files, id), is, id);
  assert.equal(isLoadedFrom([], 'a'), false);
});

test('packages below system belong to the engine', () => {
  assert.equal(isEnginesOwn({ id: 'a', raw: '# x\npackage system.authz\n' }), true);
  assert.equal(isEnginesOwn({ id: 'a', raw: 'package systems\n' }), false);
});

test('a module that another needs goes after that one; what the engine does not let go stays and holds up nobody', async () => {
  const held = new Set(['lib', 'user', 'owned']);
  const rest = {
    deletePolicy: async (id: string) => {
      if (id === 'owned' || (id === 'lib' && held.has('user'))) throw new EngineRefusal(`${id} stays`, []);
      held.delete(id);
    },
  };
  const gone = await removeModules(['lib', 'owned', 'user'], { rest, log: silentLogger() }, AbortSignal.timeout(1000));
  assert.deepEqual([gone.sort(), [...held]], [['lib', 'user'], ['owned']]);
});
