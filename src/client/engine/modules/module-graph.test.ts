import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ModuleGraph } from './module-graph.js';

function graphOf(modules: Record<string, string>, before: Record<string, string> = {}): ModuleGraph {
  return new ModuleGraph(new Map(Object.entries(modules)), new Map(Object.entries(before)));
}

describe('the order of modules', () => {
  const table: [name: string, modules: Record<string, string>, groups: string[][]][] = [
    ['keeps that of modules that do not name each other', { b: 'package b', a: 'package a' }, [['b'], ['a']]],
    ['puts an imported package first', { a: 'package a\nimport data.lib.x', z: 'package lib.x' }, [['z'], ['a']]],
    [
      'puts a package first that is named by a rule',
      { a: 'package a\nf if { data.lib.g(1) }', z: 'package lib' },
      [['z'], ['a']],
    ],
    ['knows names in brackets', { a: 'package a\nx := data["li-b"].y', z: 'package data["li-b"]' }, [['a'], ['z']]],
    [
      'follows chains',
      { a: 'package a\nimport data.b', b: 'package b\nimport data.c', c: 'package c' },
      [['c'], ['b'], ['a']],
    ],
    [
      'takes all files of a package',
      { t: 'package t\nimport data.p', p1: 'package p', p2: 'package p' },
      [['p1'], ['p2'], ['t']],
    ],
    [
      'knows names within a package',
      { a: 'package p\nallow if not deny', b: 'package p\ndeny contains 1' },
      [['b'], ['a']],
    ],
    [
      'is no matter of names that both define',
      { a: 'package p\ndeny := 1', b: 'package p\ndeny := 1' },
      [['a'], ['b']],
    ],
    [
      'takes what is read by a computed name for everything',
      { a: 'package a\nx := data[y]', b: 'package b' },
      [['b'], ['a']],
    ],
    [
      'looks into template strings, and into no other ones, and into no comments',
      { a: 'package a\nx := $"{data.c.x}"\ny := "data.b"\n# data.b', b: 'package b', c: 'package c' },
      [['c'], ['a'], ['b']],
    ],
    ['keeps what has no package', { x: '# nothing', a: 'package a' }, [['x'], ['a']]],
  ];
  for (const [name, modules, groups] of table) it(name, () => assert.deepEqual(graphOf(modules).groups, groups));

  it('has modules that need each other in one group', () => {
    const { groups } = graphOf({
      a: 'package a\nimport data.b',
      b: 'package b\nimport data.a',
      c: 'package c\nimport data.a',
    });
    assert.deepEqual(
      groups.map((group) => [...group].sort()),
      [['a', 'b'], ['c']],
    );
  });

  it('ends for a chain of any length', () => {
    const modules = Object.fromEntries(
      Array.from({ length: 20_000 }, (_, n) => [`m${n}`, `package p${n}\nimport data.p${n + 1}`]),
    );
    assert.deepEqual(graphOf(modules).groups.at(-1), ['m0']);
  });
});

describe('what depends on changes', () => {
  const modules = {
    a: 'package a\nx := 1',
    b: 'package b\nx := 1',
    one: 'package one\nx := data.a.x',
    two: 'package two\nx := data.one.x + data.b.x',
    top: 'package top\nx := data.two.x',
  };
  const graph = graphOf(modules);

  it('mixes where it reads several of them, also by others, or is one and reads another', () => {
    assert.deepEqual([...graph.mixing(new Set(['a', 'b']))], ['two', 'top']);
    assert.deepEqual([...graph.mixing(new Set(['a', 'one']))], ['one', 'two', 'top']);
    assert.deepEqual([...graph.mixing(new Set(['a']))], []);
  });

  it('is what reads one of them, with all that reads that', () => {
    assert.deepEqual([...graph.withReaders(new Set(['b']))].sort(), ['b', 'top', 'two']);
  });

  it('counts what the former version read', () => {
    const moved = graphOf(
      { a: 'package a\nx := 1', r: 'package r' },
      { a: 'package a', r: 'package r\nx := data.a.x' },
    );
    assert.deepEqual([...moved.withReaders(new Set(['a']))].sort(), ['a', 'r']);
  });

  it('mixes in a package that has two of them, or one and a reader of another', () => {
    const files = graphOf({ a: 'package p', b: 'package p', c: 'package p\nx := data.q', d: 'package q' });
    assert.deepEqual([...files.mixing(new Set(['a', 'b']))].sort(), ['a', 'b']);
    assert.deepEqual([...files.mixing(new Set(['a', 'd']))].sort(), ['a', 'c']);
    assert.deepEqual([...files.mixing(new Set(['d']))], []);
  });
});
