import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { checkJson } from '../lib/json/json.js';
import { MAX_JSON_DEPTH } from '../lib/json/json-check.js';
import { sameJson } from '../wire/same-json.js';
import { Documents } from './documents.js';
import type { DocumentOp } from './types.js';
import { EngineRefusal } from './vocabulary.js';

test('keeps texts as written, and creates missing parents', () => {
  const documents = new Documents();
  documents.apply([{ path: ['a', 'b'], text: ' {"n": 12345678901234567890, "f":1.0} ' }]);
  assert.equal(documents.text(), '{"a":{"b":{"n": 12345678901234567890, "f":1.0}}}');
  assert.equal(documents.read(['a', 'b', 'n']), '12345678901234567890');
  assert.equal(documents.read(['a', 'c']), undefined);
});

test('changes a document through the text that was written above it', () => {
  const documents = new Documents();
  documents.apply([{ path: ['users'], text: '{"alice":{"age":1.50,"tags":["x"]},"bob":{}}' }]);
  documents.apply([
    { path: ['users', 'alice', 'age'], text: '2' },
    { path: ['users', 'bob'], text: undefined },
  ]);
  assert.equal(documents.text(), '{"users":{"alice":{"age":2,"tags":["x"]}}}');
});

for (const [what, at] of [
  ['a scalar', ['a', 'number', 'x']],
  ['an array', ['a', 'list', '0']],
  ['null', ['a', 'nothing', 'x', 'y']],
] as const) {
  test(`refuses a put through ${what}, and ignores a removal there`, () => {
    const documents = new Documents();
    const before = '{"a":{"number":1,"list":[1],"nothing":null}}';
    documents.apply([{ path: ['a'], text: '{"number":1,"list":[1],"nothing":null}' }]);
    assert.throws(() => documents.apply([{ path: at, text: '1' }]), EngineRefusal);
    assert.deepEqual(documents.apply([{ path: at, text: undefined }]).ops, []);
    assert.equal(documents.text(), before);
  });
}

test('refuses a whole list with one operation that cannot be made', () => {
  const documents = new Documents();
  documents.apply([{ path: ['a'], text: '1' }]);
  assert.throws(() =>
    documents.apply([
      { path: ['b', 'c', 'd'], text: '2' },
      { path: ['a'], text: undefined },
      { path: ['b', 'c', 'd', 'e'], text: '3' },
    ]),
  );
  assert.equal(documents.text(), '{"a":1}');
});

test('replaces the root member by member, and takes nothing but an object there', () => {
  const documents = new Documents();
  documents.apply([{ path: ['a'], text: '1' }]);
  assert.throws(() => documents.apply([{ path: [], text: '[1]' }]), EngineRefusal);
  const { ops } = documents.apply([{ path: [], text: '{"b":2}' }]);
  assert.deepEqual(ops, [
    { path: ['a'], text: undefined },
    { path: ['b'], text: '2' },
  ]);
  documents.apply([{ path: [], text: undefined }]);
  assert.equal(documents.text(), '{}');
});

test('replaces what lies below roots by regions', () => {
  const documents = new Documents();
  documents.apply([{ path: [], text: '{"app":{"old":1,"roles":{"x":1}},"other":{"y":1}}' }]);
  const change = documents.replace([['app'], ['other'], ['none']], [{ path: ['app', 'roles'], text: '{"z":2}' }]);
  assert.equal(documents.text(), '{"app":{"roles":{"z":2}}}');
  change.undo();
  assert(sameJson(documents.text(), '{"app":{"old":1,"roles":{"x":1}},"other":{"y":1}}'));
});

test('gives the documents at and below some places', () => {
  const documents = new Documents();
  documents.apply([{ path: [], text: '{"a":{"b":1,"c":2},"d":3}' }]);
  assert(sameJson(documents.textBelow([['a', 'b'], ['d'], ['e']]), '{"a":{"b":1},"d":3}'));
  assert.equal(documents.textBelow([]), '{}');
});

test('a name of Object.prototype is a member as every other', () => {
  const documents = new Documents();
  documents.apply([{ path: ['__proto__', 'constructor'], text: '1' }]);
  assert.equal(documents.text(), '{"__proto__":{"constructor":1}}');
});

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

const name = fc.constantFrom('a', 'b', 'c', '__proto__', 'x/y');
const value: fc.Arbitrary<string> = fc
  .letrec<{ any: Json }>((tie) => ({
    any: fc.oneof(
      { depthSize: 'small' },
      fc.constantFrom<Json>(null, true, 1, 'text', []),
      fc.dictionary(name, tie('any'), { maxKeys: 3, noNullPrototype: true }) as fc.Arbitrary<Json>,
    ),
  }))
  .any.map((plain) => JSON.stringify(plain));
const op: fc.Arbitrary<DocumentOp> = fc.record({
  path: fc.array(name, { minLength: 1, maxLength: 4 }),
  text: fc.oneof(value, fc.constant(undefined)),
});

test('property: equals a plain tree, takes a list whole or not at all, and takes it back', () => {
  void fc.assert(
    fc.property(fc.array(fc.tuple(fc.array(op, { maxLength: 4 }), fc.boolean()), { maxLength: 12 }), (lists) => {
      const documents = new Documents();
      let model: Tree = new Map();
      for (const [list, isUndone] of lists) {
        const before = documents.text();
        const next = applied(model, list);
        if (next === undefined) {
          assert.throws(() => documents.apply(list), EngineRefusal);
          assert(sameJson(documents.text(), before));
          continue;
        }
        const { ops, undo } = documents.apply(list);
        assert(sameJson(documents.text(), textOf(next)));
        const copy = new Documents();
        copy.apply([{ path: [], text: before }]);
        assert.equal(copy.apply(ops).ops.length, ops.length, 'each operation changes something');
        assert(sameJson(copy.text(), documents.text()));
        if (isUndone) undo();
        else model = next;
        assert(sameJson(documents.text(), textOf(model)));
      }
    }),
  );
});

type Tree = Map<string, Tree | string>;

/** The rules, without any of the code under test: undefined if one operation cannot be made. */
function applied(tree: Tree, ops: readonly DocumentOp[]): Tree | undefined {
  const copy = treeOf(JSON.parse(textOf(tree)) as Json);
  if (typeof copy === 'string') throw new Error('the root is an object');
  for (const { path, text } of ops) {
    let at = copy;
    let isThere = true;
    for (const segment of path.slice(0, -1)) {
      const child = at.get(segment);
      if (child instanceof Map) at = child;
      else if (text === undefined) isThere = false;
      else if (child !== undefined) return undefined;
      else {
        const made: Tree = new Map();
        at.set(segment, made);
        at = made;
      }
      if (!isThere) break;
    }
    const last = path.at(-1) ?? '';
    if (!isThere) continue;
    if (text === undefined) at.delete(last);
    else at.set(last, treeOf(JSON.parse(text) as Json));
  }
  return copy;
}

function treeOf(plain: Json): Tree | string {
  if (plain === null || typeof plain !== 'object' || Array.isArray(plain)) return JSON.stringify(plain);
  return new Map(Object.entries(plain).map(([key, member]) => [key, treeOf(member)]));
}

function textOf(tree: Tree | string): string {
  if (typeof tree === 'string') return tree;
  return `{${[...tree].map(([key, member]) => `${JSON.stringify(key)}:${textOf(member)}`).join(',')}}`;
}

test('documents as a whole are nested as deep as OPA reads, whatever their paths, and one level deeper is refused', () => {
  const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
  for (const path of [['a'], ['a', 'b'], ['a', 'b', 'c', 'd']]) {
    const documents = new Documents();
    const most = MAX_JSON_DEPTH - path.length;
    documents.apply([{ path, text: nested(most) }]);
    checkJson(documents.text());
    const before = documents.text();
    assert.throws(() => documents.apply([{ path, text: nested(most + 1) }]), {
      ...{ name: 'EngineRefusal', message: /nested deeper than \d+ .* may be nested 10000 levels deep/ },
    });
    assert.throws(() => documents.replace([['a']], [{ path, text: nested(most + 1) }]), EngineRefusal);
    assert.equal(documents.text(), before);
  }
  const root = `{"a":${nested(MAX_JSON_DEPTH)}}`;
  assert.throws(() => new Documents().apply([{ path: [], text: root }]), EngineRefusal);
  new Documents().apply([{ path: [], text: `{"a":${nested(MAX_JSON_DEPTH - 1)}}` }]);
});
