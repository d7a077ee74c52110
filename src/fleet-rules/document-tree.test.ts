import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DataDocument } from '../wire/fleet-views.js';
import {
  documentTree,
  matchesDocument,
  openAtFirst,
  pathsAbove,
  type TreeNode,
  treeKey,
  treeNodeAt,
  treeRows,
} from './document-tree.js';

function document(path: string, more: Partial<DataDocument> = {}): DataDocument {
  return {
    ...{
      path,
      origin: 'update',
      source: 'inline',
      method: 'PUT',
      seq: 1,
      update_id: 'u',
      reason: null,
      publisher: null,
    },
    ...{
      bytes: 10,
      hash: null,
      changed_at: null,
      retained_until: null,
      topics: ['policy_data'],
      clients: 1,
      refused_by: 0,
      patches: 0,
      versions: 1,
    },
    ...more,
  };
}

const names = (nodes: readonly TreeNode[]): unknown[] =>
  nodes.map(({ name, children }) => (children.length === 0 ? name : [name, names(children)]));
const tree = documentTree([
  document('/limits/regions', { seq: 9, refused_by: 1, changed_at: 5 }),
  document('/limits/refunds', { seq: 7, source: 'https://one.example/limits', bytes: null }),
  document('/roles'),
  document('/tenants/eu/one/flags'),
  document('/tenants/eu/one/plan'),
  document('/users'),
  document('/users/bob'),
]);

test('paths fold by segments, and where nothing branches off into one row', () => {
  assert.deepEqual(names(tree), [
    ['/limits', ['refunds', 'regions']],
    '/roles',
    ['/tenants/eu/one', ['flags', 'plan']],
    ['/users', ['bob']],
  ]);
});

test('a node sums up what is below it', () => {
  const limits = treeNodeAt(tree, '/limits');
  assert.deepEqual(
    [limits?.documents, limits?.bytes, limits?.seq, limits?.refusedBy, limits?.source, limits?.changedAt],
    [2, null, 9, 1, null, 5],
  );
  assert.deepEqual([treeNodeAt(tree, '/users')?.bytes, treeNodeAt(tree, '/users')?.source], [20, 'inline']);
  assert.equal(treeNodeAt(tree, '/nothing'), undefined);
});

test('the root document is a node of its own', () => {
  assert.deepEqual(names(documentTree([document('/'), document('/a')])), ['/', '/a']);
});

test('a document whose name is that of a member of every object is a document', () => {
  assert.deepEqual(names(documentTree([document('/__proto__/constructor'), document('/toString')])), [
    '/__proto__/constructor',
    '/toString',
  ]);
});

test('rows know their level, their place and their parent', () => {
  const rows = treeRows(tree, (path) => path === '/users');
  assert.deepEqual(
    rows.map(({ node, level, position, siblings, open, parent }) => [
      node.path,
      level,
      position,
      siblings,
      open,
      parent,
    ]),
    [
      ['/limits', 1, 1, 4, false, null],
      ['/roles', 1, 2, 4, null, null],
      ['/tenants/eu/one', 1, 3, 4, false, null],
      ['/users', 1, 4, 4, true, null],
      ['/users/bob', 2, 1, 1, null, '/users'],
    ],
  );
});

test('a small tree is open at first, a large one is not', () => {
  assert.deepEqual([...openAtFirst(tree, 20)], ['/limits', '/tenants/eu/one', '/users']);
  assert.deepEqual([...openAtFirst(tree, 8)], []);
  assert.deepEqual(pathsAbove(tree, '/tenants/eu/one/plan'), ['/tenants/eu/one']);
});

test('keys lead through the tree', () => {
  const rows = treeRows(tree, (path) => path === '/users');
  assert.deepEqual(treeKey('ArrowDown', rows, '/limits'), { go: '/roles' });
  assert.deepEqual(treeKey('ArrowUp', rows, '/limits'), undefined);
  assert.deepEqual(treeKey('End', rows, '/limits'), { go: '/users/bob' });
  assert.deepEqual(treeKey('Home', rows, '/users'), { go: '/limits' });
  assert.deepEqual(treeKey('ArrowRight', rows, '/limits'), { toggle: '/limits' });
  assert.deepEqual(treeKey('ArrowRight', rows, '/users'), { go: '/users/bob' });
  assert.deepEqual(treeKey('ArrowRight', rows, '/roles'), undefined);
  assert.deepEqual(treeKey('ArrowLeft', rows, '/users/bob'), { go: '/users' });
  assert.deepEqual(treeKey('ArrowLeft', rows, '/users'), { toggle: '/users' });
  assert.deepEqual(treeKey('x', rows, '/users'), undefined);
});

test('a search looks at path, source and topics', () => {
  const found = (query: string): boolean =>
    matchesDocument(document('/Limits/regions', { source: 'https://one.example/x', topics: ['limits', 'eu'] }), query);
  assert(['', 'regions', 'REG lim', 'source:one.example', 'topic:eu /limits', '-roles', '-source:inline'].every(found));
  assert(!['roles', '-regions', 'topic:limi one topic:us', 'path:example'].some(found));
});
