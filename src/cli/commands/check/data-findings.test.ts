import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dataFindings } from './data-findings.js';

const MODULES = [{ path: 'app/rbac.rego', text: 'package app.rbac\n' }];

/** What is said of data files, in load order. */
function said(files: Record<string, string>): string[] {
  const data = Object.entries(files).map(([path, text]) => ({ path, text }));
  return dataFindings(data, MODULES).map(({ id, file, message }) => `${id} ${file}: ${message.split(':')[0]}`);
}

test('a member that the file of a folder below replaces is shadowed', () => {
  const root = 'data_shadowed data.json: its value at';
  assert.deepEqual(said({ 'data.json': '{"users":{"a":1}}', 'users/data.json': '{}' }), [
    `${root} /users is replaced by users/data.json`,
  ]);
  assert.deepEqual(said({ 'data.json': '{"a":{"b":1}}', 'a/b/c/data.json': '1' }), [
    `${root} /a/b is replaced by a/b/c/data.json`,
  ]);
  assert.deepEqual(said({ 'a/data.json': '[]', 'a/b/data.json': '1' }), [
    'data_shadowed a/data.json: its value at /a is replaced by a/b/data.json',
  ]);
});

test('files that leave each other room are in order', () => {
  const room = { 'data.json': '{"users":{},"other":1}', 'users/data.json': '{"a":1}', 'roles/x/data.json': '[]' };
  assert.deepEqual(said(room), []);
  // Loaded before the one above: what replaces it is said of the file below (data_replaced).
  assert.deepEqual(said({ 'users/data.json': '1', 'data.json': '{"users":2}' }), []);
  assert.deepEqual(said({ 'data.json': '{"constructor":1}', 'toString/data.json': '1' }), []);
});

test('data at or below a package is named', () => {
  const text = 'lies at or below a package';
  assert.deepEqual(said({ 'app/data.json': '{}', 'app/rbac/data.json': '{}', 'app/rbac/x/data.json': '1' }), [
    `data_below_package app/rbac/data.json: ${text}`,
    `data_below_package app/rbac/x/data.json: ${text}`,
  ]);
});
