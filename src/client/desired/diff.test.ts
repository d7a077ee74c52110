import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseDocPath } from '../../wire/doc-path.js';
import { bodyOfText, leafOf, leafOfBody, type Node } from '../../wire/json-node.js';
import { diffNodes, putOp } from './layers.js';

/** A branch from nested plain objects whose leaves are JSON texts. */
type Tree = { [key: string]: Tree | string };
function node(tree: Tree | string | undefined): Node | undefined {
  if (tree === undefined) return undefined;
  if (typeof tree === 'string') return leafOf(tree);
  const members = new Map<string, Node>();
  for (const [key, member] of Object.entries(tree)) {
    const child = node(member);
    if (child !== undefined) members.set(key, child);
  }
  return { kind: 'branch', members };
}

function ops(
  before: Tree | string | undefined,
  after: Tree | string | undefined,
  at: string,
  closed: string[] = [],
): string[] {
  return diffNodes(node(before), node(after), parseDocPath(at), closed.map(parseDocPath)).map((op) =>
    op.op === 'put' ? `put /${op.path.join('/')} ${op.text()}` : `remove /${op.path.join('/')}`,
  );
}

describe('the way from one subtree to another', () => {
  const TABLE: [string, Parameters<typeof ops>, string[]][] = [
    ['nothing to nothing', [undefined, undefined, '/a'], []],
    ['the same text', ['1', '1', '/a'], []],
    ['another text', ['1', '1.0', '/a'], ['put /a 1.0']],
    ['new', [undefined, '{"b":1}', '/a'], ['put /a {"b":1}']],
    ['gone', ['{"b":1}', undefined, '/a'], ['remove /a']],
    ['a document to another is one put', ['{"b":1,"c":2}', '{"b":1,"c":3}', '/a'], ['put /a {"b":1,"c":3}']],
    ['documents that overlap keep what stays', [{ b: '1', c: '2' }, { b: '1', c: '3' }, '/a'], ['put /a/c 3']],
    ['a value to an overlap is one put', ['1', { b: '1' }, '/a'], ['put /a {"b":1}']],
    [
      'the root is written by its members',
      ['{"x":1,"y":2}', '{"y":3,"z":4}', '/'],
      ['remove /x', 'put /y 3', 'put /z 4'],
    ],
    ['the root is never removed', ['{"x":1}', undefined, '/'], ['remove /x']],
    ['a closed path is left alone', ['1', '2', '/a', ['/a']], []],
    ['below a closed path, too', ['1', '2', '/a/b', ['/a']], []],
    ['around a closed path', ['{"b":1,"c":1}', '{"b":2,"c":2}', '/a', ['/a/b']], ['put /a/c 2']],
    ['what has a closed path below is never removed', ['{"b":1,"c":1}', undefined, '/a', ['/a/b']], ['remove /a/c']],
    ['a value makes room for a closed path', ['7', '{"b":{"x":1},"c":2}', '/a', ['/a/b']], ['remove /a', 'put /a/c 2']],
    ['a closed path elsewhere means nothing', ['1', '2', '/a', ['/ab', '/b/a']], ['put /a 2']],
    ['names with slashes are single names', ['{"x/y":1}', '{"x/y":2}', '/', ['/x']], ['put /x/y 2']],
    ['names that mean something to JavaScript', [undefined, '{"__proto__":1}', '/', []], ['put /__proto__ 1']],
  ];
  for (const [what, args, due] of TABLE) it(what, () => assert.deepEqual(ops(...args), due));
});

describe('the put of a node', () => {
  it('has the body where it is exactly one, so that it can be streamed', () => {
    const body = bodyOfText('{"a":1}');
    const whole = putOp(['x'], leafOfBody(body));
    assert(whole.op === 'put');
    assert.equal(whole.body, body);
    const part = putOp(['x'], leafOf('1'));
    assert.equal('body' in part, false);
  });
});
