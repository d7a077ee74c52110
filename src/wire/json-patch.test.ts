import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { cpuTimer } from '../../test/support/cpu-time.js';
import { parseJson } from '../lib/json/json.js';
import { leafOf, nodeText, withValue } from './json-node.js';
import { applyPatch, PatchRefused, parsePatch, patchedAt } from './json-patch.js';

function patched(document: string | undefined, patch: unknown): string | undefined {
  const text = typeof patch === 'string' ? patch : JSON.stringify(patch);
  const node = applyPatch(document === undefined ? undefined : leafOf(document), parsePatch(text));
  return node === undefined ? undefined : nodeText(node);
}

describe('a patch', () => {
  /**
   * From RFC 6902 appendix A, and design D16 where it differs: missing parents are made, removing
   * nothing succeeds.
   */
  const TABLE: [string, string | undefined, unknown, unknown][] = [
    ['adds a member', '{"foo":"bar"}', [{ op: 'add', path: '/baz', value: 'qux' }], { foo: 'bar', baz: 'qux' }],
    [
      'adds an element',
      '{"foo":["bar","baz"]}',
      [{ op: 'add', path: '/foo/1', value: 'qux' }],
      { foo: ['bar', 'qux', 'baz'] },
    ],
    ['adds at the end', '{"foo":["a"]}', [{ op: 'add', path: '/foo/1', value: 'b' }], { foo: ['a', 'b'] }],
    ['adds behind the end', '{"foo":["a"]}', [{ op: 'add', path: '/foo/-', value: ['b'] }], { foo: ['a', ['b']] }],
    ['removes a member', '{"baz":"qux","foo":"bar"}', [{ op: 'remove', path: '/baz' }], { foo: 'bar' }],
    ['removes an element', '{"foo":["a","b","c"]}', [{ op: 'remove', path: '/foo/1' }], { foo: ['a', 'c'] }],
    ['replaces a value', '{"baz":"qux"}', [{ op: 'replace', path: '/baz', value: 1 }], { baz: 1 }],
    ['replaces an element', '[1,2]', [{ op: 'replace', path: '/1', value: 3 }], [1, 3]],
    [
      'moves a value',
      '{"foo":{"a":1,"b":2},"qux":{}}',
      [{ op: 'move', from: '/foo/a', path: '/qux/a' }],
      { foo: { b: 2 }, qux: { a: 1 } },
    ],
    [
      'moves an element',
      '{"foo":["all","grass","cows","eat"]}',
      [{ op: 'move', from: '/foo/1', path: '/foo/3' }],
      { foo: ['all', 'cows', 'eat', 'grass'] },
    ],
    ['copies a value', '{"a":{"b":[1]}}', [{ op: 'copy', from: '/a/b', path: '/c' }], { a: { b: [1] }, c: [1] }],
    [
      'tests a value',
      '{"baz":"qux","foo":["a",2,"c"]}',
      [
        { op: 'test', path: '/baz', value: 'qux' },
        { op: 'test', path: '/foo/1', value: 2 },
      ],
      { baz: 'qux', foo: ['a', 2, 'c'] },
    ],
    [
      'tests by value, not by order',
      '{"a":{"x":1,"y":[]}}',
      [{ op: 'test', path: '/a', value: { y: [], x: 1 } }],
      { a: { x: 1, y: [] } },
    ],
    [
      'adds a nested member',
      '{"foo":"bar"}',
      [{ op: 'add', path: '/child', value: { grandchild: {} } }],
      { foo: 'bar', child: { grandchild: {} } },
    ],
    ['replaces the document', '{"a":1}', [{ op: 'add', path: '', value: [1] }], [1]],
    ['removes the document', '{"a":1}', [{ op: 'remove', path: '' }], undefined],
    ['starts from nothing', undefined, [{ op: 'add', path: '/a/b', value: 1 }], { a: { b: 1 } }],
    ['makes missing parents', '{}', [{ op: 'replace', path: '/a/b/c', value: 1 }], { a: { b: { c: 1 } } }],
    [
      'removes what is not there',
      '{"a":[1]}',
      [
        { op: 'remove', path: '/b' },
        { op: 'remove', path: '/a/7' },
        { op: 'remove', path: '/a/x' },
      ],
      { a: [1] },
    ],
    [
      'reads escapes of pointers',
      '{"/":9,"~1":10}',
      [
        { op: 'test', path: '/~01', value: 10 },
        { op: 'remove', path: '/~1' },
      ],
      { '~1': 10 },
    ],
    ['edits inside an element', '[{"a":[1]}]', [{ op: 'add', path: '/0/a/-', value: 2 }], [{ a: [1, 2] }]],
    ['empty names are names', '{}', [{ op: 'add', path: '/', value: 1 }], { '': 1 }],
    ['an index in an object is a name', '{"0":1}', [{ op: 'replace', path: '/0', value: 2 }], { '0': 2 }],
    [
      'null is a value',
      '{"a":null}',
      [
        { op: 'test', path: '/a', value: null },
        { op: 'add', path: '/b', value: null },
      ],
      { a: null, b: null },
    ],
    ['without operations changes nothing', '{"a":1}', [], { a: 1 }],
    [
      'sets a member that is missing, also by replace',
      '{"a":1}',
      [{ op: 'replace', path: '/b', value: 2 }],
      { a: 1, b: 2 },
    ],
    ['makes an object of a scalar on the way', '{"a":7}', [{ op: 'add', path: '/a/b', value: 1 }], { a: { b: 1 } }],
    [
      'makes objects, never lists, where an index leads to nothing',
      '{}',
      [{ op: 'add', path: '/a/0', value: 1 }],
      { a: { '0': 1 } },
    ],
    ['sets a member of the name -', '{"a":{}}', [{ op: 'add', path: '/a/-', value: 1 }], { a: { '-': 1 } }],
    ['removes nothing at -', '{"a":[1]}', [{ op: 'remove', path: '/a/-' }], { a: [1] }],
    ['ignores members that it does not know', '{}', [{ op: 'add', path: '/a', value: 1, xyz: 2 }], { a: 1 }],
  ];
  for (const [what, document, patch, result] of TABLE) {
    it(what, () => {
      const text = patched(document, patch);
      assert.deepEqual(text === undefined ? undefined : JSON.parse(text), result);
    });
  }

  const REFUSED: [string, string, unknown, RegExp][] = [
    [
      'an append to what is missing',
      '{}',
      [{ op: 'add', path: '/a/-', value: 1 }],
      /"a\/-": there is no list to append to/,
    ],
    ['an append to a scalar', '{"a":1}', [{ op: 'add', path: '/a/-', value: 1 }], /no list to append to/],
    ['a replacement behind the end', '{"a":[1]}', [{ op: 'replace', path: '/a/1', value: 1 }], /outside the list/],
    ['an element far behind the end', '{"a":[1]}', [{ op: 'add', path: '/a/3', value: 1 }], /outside the list/],
    ['a name in a list', '{"a":[1]}', [{ op: 'add', path: '/a/x', value: 1 }], /outside the list/],
    ['a document in place of a list', '{}', { op: 'add', path: '/a', value: 1 }, /list of JSON patch operations/],
    ['an operation that there is none', '{}', [{ op: 'spam', path: '/a' }], /operation 0 of the patch is "spam"/],
    ['no path', '{}', [{ op: 'add', value: 1 }], /operation 0 of the patch needs "op" and "path"/],
    ['a path that is a number', '{}', [{ op: 'add', path: 1, value: 1 }], /needs "op" and "path"/],
    ['an operation that is no object', '{}', [1], /needs "op" and "path"/],
    ['no value', '{}', [{ op: 'add', path: '/a' }], /operation 0 \(add\) of the patch has no value/],
    [
      'no from',
      '{}',
      [
        { op: 'test', path: '', value: {} },
        { op: 'copy', path: '/a' },
      ],
      /operation 1 \(copy\) of the patch has no "from"/,
    ],
    ['a pointer without a slash', '{}', [{ op: 'remove', path: 'a' }], /no JSON pointer/],
    ['a test that does not hold', '{"a":1}', [{ op: 'test', path: '/a', value: 2 }], /test of "a" does not hold/],
    ['a test of nothing', '{}', [{ op: 'test', path: '/a', value: null }], /does not hold/],
    ['a test of a list against an object', '{"a":[]}', [{ op: 'test', path: '/a', value: {} }], /does not hold/],
    ['a move from nowhere', '{}', [{ op: 'move', from: '/x', path: '/a' }], /move from "x": nothing is there/],
    ['an index behind the end', '[1]', [{ op: 'add', path: '/2', value: 1 }], /outside the list/],
    ['a replacement behind the end', '[1]', [{ op: 'replace', path: '/-', value: 1 }], /outside the list/],
    ['an index that is a word', '[1]', [{ op: 'add', path: '/x', value: 1 }], /outside the list/],
    ['an index with a leading zero', '[1]', [{ op: 'replace', path: '/00', value: 1 }], /outside the list/],
    ['a huge index', '[1]', [{ op: 'add', path: '/99999999999999999999', value: 1 }], /outside the list/],
    ['an index with a sign', '[1]', [{ op: 'add', path: '/-1', value: 1 }], /outside the list/],
    ['a way through an element that is not there', '[1]', [{ op: 'add', path: '/5/a', value: 1 }], /outside the list/],
  ];
  for (const [what, document, patch, message] of REFUSED) {
    it(`is refused with ${what}`, () => {
      assert.throws(
        () => patched(document, patch),
        (error) => error instanceof PatchRefused && message.test(error.message),
      );
    });
  }

  it('costs no more than its length and that of the document, however many operations it has', () => {
    const many = Array.from({ length: 50_000 }, (_, index) => index);
    const spentMs = cpuTimer();
    const list = patched(
      '{"l":[]}',
      many.map((value) => ({ op: 'add', path: '/l/-', value })),
    );
    assert.deepEqual(JSON.parse(list ?? ''), { l: many });
    const object = patched(
      '{"o":{}}',
      many.map((value) => ({ op: 'add', path: `/o/k${value}`, value })),
    );
    assert.equal(Object.keys(JSON.parse(object ?? '').o).length, many.length);
    assert.equal(
      patched(
        object,
        many.map((value) => ({ op: 'remove', path: `/o/k${value}` })),
      ),
      '{"o":{}}',
    );
    assert(spentMs() < 5_000, `${spentMs()} ms`);
  });

  it('is refused where it reads long values again and again', () => {
    const o = { x: 'y'.repeat(200_000) };
    const short = JSON.stringify({ l: Array.from({ length: 200_000 }, () => 1), o }); // costs most to read
    const long = JSON.stringify({ l: Array.from({ length: 2_000 }, () => 'z'.repeat(200)), o });
    const spentMs = cpuTimer();
    const cases: [string, object[]][] = [
      [
        short,
        [
          { op: 'copy', from: '/l', path: '/o/l' },
          { op: 'test', path: '/o/l/0', value: 1 },
        ],
      ],
      [long, [{ op: 'copy', from: '/o', path: '/o/o' }]],
      [long, [{ op: 'copy', from: '', path: '/l/-' }]],
    ];
    for (const [document, ops] of cases) {
      assert.notEqual(patched(document, ops), undefined, 'once it is done');
      const again = Array.from({ length: 1_000 }, () => ops).flat();
      assert.throws(() => patched(document, again), /reads long values too often|copies too much/, JSON.stringify(ops));
    }
    assert(spentMs() < 10_000, `${spentMs()} ms`);
  });

  it('changes nothing of the document that it was given, and one of two copies alone', () => {
    const node = applyPatch(leafOf('{"a":{"l":[1]}}'), parsePatch('[{"op":"add","path":"/a/x","value":1}]'));
    const before = node && nodeText(node);
    const patch = [
      { op: 'add', path: '/a/l/-', value: 2 },
      { op: 'copy', from: '/a', path: '/b' },
      { op: 'add', path: '/b/l/-', value: 3 },
      { op: 'add', path: '/b/y', value: 3 },
      { op: 'move', from: '/b/l', path: '/c' },
      { op: 'add', path: '/c/0', value: 0 },
    ];
    const after = applyPatch(node, parsePatch(JSON.stringify(patch)));
    assert.deepEqual(JSON.parse(nodeText(after ?? leafOf('null'))), {
      a: { l: [1, 2], x: 1 },
      b: { x: 1, y: 3 },
      c: [0, 1, 2, 3],
    });
    assert.equal(node && nodeText(node), before);
  });

  it('reaches deep into a large document, whatever part of it lies that deep', () => {
    const levels = 10;
    const long = `${'{"a":'.repeat(levels)}{"pad":"${'x'.repeat(32 * 1024 * 1024)}"}${'}'.repeat(levels)}`;
    const pointer = '/a'.repeat(levels);
    const after = patched(long, [
      { op: 'add', path: `${pointer}/x`, value: 1 },
      { op: 'add', path: `${pointer}/y`, value: 2 },
    ]);
    assert.equal(after?.length, long.length + ',"x":1,"y":2'.length);
    assert(after.endsWith(`","x":1,"y":2}${'}'.repeat(levels)}`));
  });

  it('does not make a document deeper than engines read, whatever it adds, copies or moves, and wherever the document is', () => {
    const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
    const document = leafOf(`{"a":${nested(9_000)}}`);
    const apply = (op: object, above: number, value = ''): void => {
      const text = value === '' ? JSON.stringify([op]) : `[${JSON.stringify(op).slice(0, -1)},"value":${value}}]`;
      patchedAt(withValue(undefined, ['p'], document), ['p'], parsePatch(text), above - 1);
    };
    const below = (segments: number): string => '/b'.repeat(segments);
    const cases: [op: object, segments: number, levels: number, value?: string][] = [
      [{ op: 'add', path: below(3) }, 3, 9_100, nested(9_100)],
      [{ op: 'replace', path: '/a/0' }, 2, 9_100, nested(9_100)],
      [{ op: 'copy', from: '/a', path: below(100) }, 100, 9_000],
      [{ op: 'move', from: '/a', path: below(100) }, 100, 9_000],
      [{ op: 'move', from: '/a/0', path: below(100) }, 100, 8_999],
    ];
    for (const [op, segments, levels, value] of cases) {
      const most = 10_000 - segments - levels;
      apply(op, most, value);
      assert.throws(
        () => apply(op, most + 1, value),
        (error) => error instanceof PatchRefused && /levels deep/.test(error.message),
      );
    }
    // Each of many moves is deep by a little.
    const wrap = parsePatch(
      JSON.stringify([
        { op: 'move', from: '/b', path: `/c${below(100)}` },
        { op: 'move', from: '/c', path: '/b' },
      ]),
    );
    let node = applyPatch(leafOf('{"b":1}'), []);
    assert.throws(() => {
      for (let count = 0; count < 200; count++) node = applyPatch(node, wrap);
    }, PatchRefused);
    parseJson(node === undefined ? '' : nodeText(node));
  });

  it('tests numbers by their exact value, not as a machine rounds them', () => {
    const big = '{"n":9007199254740993,"l":[1.0]}';
    assert.throws(() => patched(big, '[{"op":"test","path":"/n","value":9007199254740992}]'), PatchRefused);
    assert.equal(
      patched(big, '[{"op":"test","path":"/n","value":9007199254740993.0},{"op":"test","path":"/l","value":[1]}]'),
      big,
    );
  });

  it('keeps numbers and escapes as written, in the document and in values', () => {
    assert.equal(
      patched(
        '{"n":12345678901234567890,"l":[1.0,2]}',
        '[{"op":"add","path":"/f","value": 1.50 },{"op":"remove","path":"/l/1"}]',
      ),
      '{"n":12345678901234567890,"l":[1.0],"f":1.50}',
    );
    assert.equal(patched('{"a":1.0}', [{ op: 'copy', from: '/a', path: '/b' }]), '{"a":1.0,"b":1.0}');
  });

  it('of repeated members of an operation the last counts', () => {
    assert.equal(patched('{}', '[{"op":"remove","op":"add","path":"/x","path":"/a","value":1,"value":2}]'), '{"a":2}');
  });

  it('sets names that mean something to JavaScript like any other', () => {
    const text = patched('{}', [
      { op: 'add', path: '/__proto__/polluted', value: 1 },
      { op: 'add', path: '/constructor', value: 2 },
    ]);
    assert.equal(text, '{"__proto__":{"polluted":1},"constructor":2}');
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });

  it('leaves the document that it was given as it was, also when it is refused half-way', () => {
    const node = leafOf('{"a":[1,{"b":2}]}');
    assert.throws(() =>
      applyPatch(node, parsePatch('[{"op":"add","path":"/a/-","value":3},{"op":"test","path":"/a","value":0}]')),
    );
    applyPatch(node, parsePatch('[{"op":"remove","path":"/a/1/b"}]'));
    assert.equal(node.text(), '{"a":[1,{"b":2}]}');
  });

  it('an added value is found where it was put, whatever the document', () => {
    const name = fc.constantFrom('a', 'b', '', '~', '/', '__proto__');
    fc.assert(
      fc.property(
        fc.dictionary(name, fc.jsonValue({ maxDepth: 2 })),
        fc.array(name, { minLength: 1, maxLength: 3 }),
        fc.jsonValue(),
        (document, at, value) => {
          const path = at.map((each) => `/${each.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
          const add = { op: 'add', path, value };
          let result: string | undefined;
          try {
            result = patched(JSON.stringify(document), [add, { op: 'test', path, value }]);
          } catch (error) {
            assert(error instanceof PatchRefused && /outside the list/.test(error.message), String(error));
            return;
          }
          assert.equal(patched(result, [add]), result, 'and adding it again changes nothing');
        },
      ),
    );
  });
});
