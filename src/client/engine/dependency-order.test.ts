import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { dependencyOrder } from './dependency-order.js';

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
