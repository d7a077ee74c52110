import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareBundles } from './compare.js';

test('modules compare by their text, data by its value, several files of a folder by their order', () => {
  const here = {
    modules: [
      { path: 'a.rego', text: 'package a' },
      { path: 'b.rego', text: 'package b' },
      { path: 'here.rego', text: 'package h' },
    ],
    data: [
      { path: 'data.json', text: '{"a":1,"b":2.0}' },
      { path: 'users/a-data.json', text: '1' },
      { path: 'users/data.json', text: '2' },
    ],
  };
  const there = {
    policy_modules: [
      { path: 'a.rego', rego: 'package a' },
      { path: 'b.rego', rego: 'package b ' },
      { path: 'there.rego', rego: 'package t' },
    ],
    data_modules: [
      { path: '.', data: '{"b":2,"a":1}' },
      { path: 'users', data: '1' },
      { path: 'users', data: '3' },
      { path: 'roles', data: '{}' },
    ],
  };
  assert.deepEqual(compareBundles(here, there), {
    same: 3,
    changed: ['b.rego', 'data /users (2)'],
    only_here: ['here.rego'],
    only_there: ['there.rego', 'data /roles'],
  });
});
