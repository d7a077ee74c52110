import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { silentLogger } from '../../lib/log.js';
import { EngineRefusal } from './engine.js';
import { dependencyOrder, isEnginesOwn, isLoadedFrom, removeModules } from './opa-modules.js';

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

describe('dependencyOrder', () => {
  const table: [name: string, modules: Record<string, string>, order: string[]][] = [
    ['keeps the order of modules that do not name each other', { b: 'package b', a: 'package a' }, ['b', 'a']],
    ['puts an imported package first', { a: 'package a\nimport data.lib.x', z: 'package lib.x' }, ['z', 'a']],
    [
      'puts a package first that is named by one of its rules',
      { a: 'package a\nf { data.lib.g(1) }', z: 'package lib' },
      ['z', 'a'],
    ],
    [
      'follows chains',
      { a: 'package a\nimport data.b', b: 'package b\nimport data.c', c: 'package c' },
      ['c', 'b', 'a'],
    ],
    [
      'ends for modules that need each other',
      { a: 'package a\nimport data.b', b: 'package b\nimport data.a' },
      ['b', 'a'],
    ],
    [
      'takes all files of a package',
      { t: 'package t\nimport data.p', p1: 'package p', p2: 'package p' },
      ['p1', 'p2', 't'],
    ],
    ['keeps what has no package', { x: '# nothing', a: 'package a' }, ['x', 'a']],
  ];
  for (const [name, modules, order] of table) {
    it(name, () => assert.deepEqual(dependencyOrder(new Map(Object.entries(modules))), order));
  }
});
