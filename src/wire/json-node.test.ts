import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseJson } from '../lib/json/json.js';
import { parsePointer } from './doc-path.js';
import {
  asOwn,
  bodyOfText,
  impliedIn,
  isObject,
  leafOf,
  leafOfBody,
  membersOf,
  type Node,
  nodeAt,
  nodeText,
  sameNode,
  withImplied,
  withValue,
} from './json-node.js';

const key = fc.constantFrom('a', 'b', '', '__proto__', 'a/b', '~');
const path = fc.array(key, { maxLength: 3 });

function text(node: Node | undefined): string | undefined {
  return node === undefined ? undefined : nodeText(node);
}

describe('a value inside a node', () => {
  const node = leafOf('{"a":{"b":[10,{"c":1.0}],"":2,"__proto__":3},"s":"x","n":null}');
  const TABLE: [string[], string | undefined][] = [
    [['a', 'b'], '[10,{"c":1.0}]'],
    [['a', 'b', '0'], '10'],
    [['a', 'b', '1', 'c'], '1.0'],
    [['a', ''], '2'],
    [['a', '__proto__'], '3'],
    [['n'], 'null'],
    [['a', 'b', '2'], undefined],
    [['a', 'b', '01'], undefined],
    [['a', 'b', '-'], undefined],
    [['a', 'b', 'length'], undefined],
    [['a', 'b', '1e0'], undefined],
    [['s', '0'], undefined],
    [['s', 'length'], undefined],
    [['constructor'], undefined],
    [['__proto__'], undefined],
    [['n', 'x'], undefined],
  ];
  for (const [at, found] of TABLE) {
    it(`at ${JSON.stringify(at)}`, () => assert.equal(text(nodeAt(node, at)), found));
  }

  it('of nothing is nothing', () => {
    assert.equal(nodeAt(undefined, ['a']), undefined);
    assert.equal(text(nodeAt(node, [])), node.text());
  });
});

describe('a node with another value', () => {
  const TABLE: [string | undefined, string[], string | undefined, string | undefined][] = [
    [undefined, ['a', 'b'], '1', '{"a":{"b":1}}'],
    ['{"a":1.0,"c":12345678901234567890}', ['b'], '2', '{"a":1.0,"c":12345678901234567890,"b":2}'],
    ['{"a":1}', ['a', 'b'], '2', '{"a":{"b":2}}'],
    ['[1]', ['0'], '2', '{"0":2}'],
    ['{"a":1}', [], '2', '2'],
    ['{"a":1}', [], undefined, undefined],
    ['{"a":{"b":1}}', ['a', 'b'], undefined, '{"a":{}}'],
    ['{"a":1}', ['x'], undefined, '{"a":1}'],
    ['{"a":1}', ['a', 'x'], undefined, '{"a":1}'],
    ['7', ['a'], undefined, '7'],
    [undefined, ['a'], undefined, undefined],
    ['{}', ['__proto__', 'x'], '1', '{"__proto__":{"x":1}}'],
  ];
  for (const [before, at, value, after] of TABLE) {
    it(`${before} with ${value} at ${JSON.stringify(at)} is ${after}`, () => {
      const node = before === undefined ? undefined : leafOf(before);
      const result = withValue(node, at, value === undefined ? undefined : leafOf(value));
      assert.equal(text(result), after);
    });
  }

  it('is what writing into plain values gives', () => {
    // As text once, since -0 prints as 0.
    const json = fc.jsonValue({ maxDepth: 1 }).map((value): unknown => parseJson(JSON.stringify(value)));
    const plain = fc.dictionary(key, fc.jsonValue({ maxDepth: 2 }), { noNullPrototype: true });
    fc.assert(
      fc.property(plain, path, fc.option(json, { nil: undefined }), (before, at, value) => {
        const after = withValue(
          leafOf(JSON.stringify(before)),
          at,
          value === undefined ? undefined : leafOf(JSON.stringify(value)),
        );
        const model = write(toMap(parseJson(JSON.stringify(before))), at, toMap(value));
        assert.deepEqual(after === undefined ? undefined : toMap(parseJson(nodeText(after))), model);
      }),
      { numRuns: 1000 },
    );
  });
});

/** Plain JSON with maps in place of objects, so that no name is special. */
function toMap(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toMap);
  if (typeof value !== 'object' || value === null) return value;
  return new Map(Object.entries(value).map(([name, member]) => [name, toMap(member)] as const));
}

/** The naive way to write or (undefined) remove a value. */
function write(at: unknown, [first, ...rest]: readonly string[], value: unknown): unknown {
  if (first === undefined) return value;
  const members: Map<string, unknown> = at instanceof Map ? new Map(at) : new Map();
  if (value === undefined && !members.has(first)) return at;
  const child = write(members.get(first), rest, value);
  if (child === undefined) members.delete(first);
  else members.set(first, child);
  return members;
}

describe('nodes compare', () => {
  it('by text, by hash where they are whole bodies, and by members', () => {
    assert(sameNode(undefined, undefined));
    assert(!sameNode(leafOf('1'), undefined));
    assert(sameNode(leafOf('1'), leafOf('1')));
    assert(!sameNode(leafOf('1'), leafOf('1.0')), 'numbers count as written');
    const branch = (value: string): Node => ({ kind: 'branch', members: new Map([['a', leafOf(value)]]) });
    assert(sameNode(branch('1'), branch('1')));
    assert(!sameNode(branch('1'), branch('2')));
    assert(!sameNode(branch('1'), { kind: 'branch', members: new Map([['b', leafOf('1')]]) }));
    assert(!sameNode(branch('1'), leafOf('{"a":1}')), 'said to differ: one write too many harms nothing');
  });

  it('bodies without reading them', () => {
    const unread = (hash: string) =>
      leafOfBody({ ...bodyOfText('1'), hash, text: () => assert.fail('the text was read') });
    assert(sameNode(unread('h'), unread('h')));
    assert(!sameNode(unread('h'), unread('i')));
  });
});

describe('an object that nothing says is there', () => {
  const at = (...names: string[]): string[] => names;

  it('goes with the last of its members', () => {
    const one = withValue(undefined, at('a', 'b', 'c'), leafOf('1'));
    const two = withValue(one, at('a', 'd'), leafOf('2'));
    assert.equal(text(withValue(two, at('a', 'b', 'c'), undefined)), '{"a":{"d":2}}');
    assert.equal(withValue(one, at('a', 'b', 'c'), undefined), undefined);
  });

  it('stays where a document has it', () => {
    const deep = withValue(leafOf('{"a":{}}'), at('a', 'b', 'c'), leafOf('1'));
    assert.equal(text(withValue(deep, at('a', 'b', 'c'), undefined)), '{"a":{}}');
    assert.equal(
      text(withValue(withValue(deep, at('a', 'b'), leafOf('{}')), at('a', 'x'), undefined)),
      '{"a":{"b":{}}}',
    );
  });

  it('is found in a node, and made of a text again', () => {
    const node = withValue(leafOf('{"a":{}}'), at('a', 'b/c', 'd', 'e'), leafOf('1'));
    assert(node !== undefined);
    assert.deepEqual(impliedIn(node), ['/a/b~1c', '/a/b~1c/d']);
    const again = withImplied(leafOf(nodeText(node)), impliedIn(node).map(parsePointer));
    assert.deepEqual(impliedIn(again), impliedIn(node));
    assert.equal(text(withValue(again, at('a', 'b/c', 'd', 'e'), undefined)), '{"a":{}}');
    assert.equal(text(withImplied(leafOf('{"a":1}'), [at('a'), at('b', 'c')])), '{"a":1}', 'what is no object is not');
    assert.deepEqual(impliedIn(asOwn(node)), []);
  });
});

describe('members of a node', () => {
  it('has only an object', () => {
    for (const none of ['[1]', '"x"', 'null', '1']) {
      assert.equal(membersOf(leafOf(none)).size, 0);
      assert.equal(isObject(leafOf(none)), false);
    }
    assert.equal(membersOf(undefined).size, 0);
    assert(isObject(leafOf('{}')));
    assert.deepEqual(
      [...membersOf(leafOfBody(bodyOfText(' {"a":1} ')))].map(([name]) => name),
      ['a'],
    );
  });
});
