import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PolicyBundle } from '../../wire/bundle.js';
import { checkPackages, folderPath, mergeBundle, type PolicyContent, staticLayers } from './policy-content.js';

function bundle(
  more: Partial<PolicyBundle> & { modules?: Record<string, string>; data?: [string, string][] },
): PolicyBundle {
  const { modules = {}, data = [], ...rest } = more;
  return {
    manifest: Object.keys(modules),
    hash: 'h2',
    old_hash: 'h1',
    policy_modules: Object.entries(modules).map(([path, rego]) => ({ path, rego })),
    data_modules: data.map(([path, text]) => ({ path, data: text })),
    deleted_files: null,
    ...rest,
  };
}

const HELD: PolicyContent = {
  hash: 'h1',
  modules: new Map([
    ['a.rego', 'A1'],
    ['b.rego', 'B1'],
  ]),
  data: [
    { folder: 'x', text: '1' },
    { folder: 'y/z', text: '2' },
  ],
};

describe('the content after a bundle', () => {
  it('a complete one replaces everything, in the order of its manifest', () => {
    const complete = bundle({ old_hash: null, modules: { 'c.rego': 'C', 'a.rego': 'A' }, data: [['.', '{}']] });
    const content = mergeBundle(HELD, { ...complete, manifest: ['a.rego', 'c.rego'] });
    assert.deepEqual(
      [...(content?.modules ?? [])],
      [
        ['a.rego', 'A'],
        ['c.rego', 'C'],
      ],
    );
    assert.deepEqual([content?.hash, content?.data], ['h2', [{ folder: '.', text: '{}' }]]);
    assert.deepEqual(mergeBundle(undefined, { ...complete, old_hash: undefined })?.hash, 'h2');
  });

  it('a delta changes, adds and removes, and keeps the rest', () => {
    const delta = bundle({
      modules: { 'a.rego': 'A2', ['__proto__']: 'P' },
      data: [
        ['x', '9'],
        ['n', '3'],
      ],
      deleted_files: { policy_modules: ['b.rego', 'never-there.rego'], data_modules: ['y/z'] },
    });
    const content = mergeBundle(HELD, delta);
    assert.deepEqual(
      Object.fromEntries(content?.modules ?? []),
      Object.fromEntries([
        ['a.rego', 'A2'],
        ['__proto__', 'P'],
      ]),
    );
    assert.deepEqual(content?.data, [
      { folder: 'x', text: '9' },
      { folder: 'n', text: '3' },
    ]);
    assert.deepEqual([...HELD.modules.keys()], ['a.rego', 'b.rego'], 'what was held is not touched');
  });

  it('a module that is deleted and listed is there: it was moved out and in', () => {
    const delta = bundle({
      modules: { 'a.rego': 'A2' },
      deleted_files: { policy_modules: ['a.rego'], data_modules: [] },
    });
    assert.equal(mergeBundle(HELD, delta)?.modules.get('a.rego'), 'A2');
  });

  const INCOMPLETE: [string, PolicyContent | undefined, PolicyBundle][] = [
    ['nothing is held', undefined, bundle({})],
    ['the base is another one', HELD, bundle({ old_hash: 'h0' })],
    ['a data folder comes inside another', HELD, bundle({ data: [['x/below', '1']] })],
    ['a data folder comes around another', HELD, bundle({ data: [['y', '1']] })],
    ['the root comes around all', HELD, bundle({ data: [['.', '{}']] })],
    [
      'a folder has several files',
      HELD,
      bundle({
        data: [
          ['n', '1'],
          ['n', '2'],
        ],
      }),
    ],
  ];
  for (const [what, held, delta] of INCOMPLETE) {
    it(`a delta does not tell enough where ${what}`, () => assert.equal(mergeBundle(held, delta), undefined));
  }

  it('of a folder that goes, what lies below stays', () => {
    const held = { ...HELD, data: [...HELD.data, { folder: 'x/y', text: '2' }] };
    const delta = bundle({ deleted_files: { policy_modules: [], data_modules: ['x', 'y/z'] } });
    assert.deepEqual(mergeBundle(held, delta)?.data, [{ folder: 'x/y', text: '2' }]);
  });

  it('folders that only share letters do not overlap', () => {
    assert.notEqual(mergeBundle(HELD, bundle({ data: [['xy', '1']] })), undefined);
  });

  it('overlapping folders that a delta does not touch are no reason to ask for all', () => {
    const held = {
      ...HELD,
      data: [
        { folder: '.', text: '{}' },
        { folder: 'x', text: '1' },
      ],
    };
    assert.deepEqual(mergeBundle(held, bundle({ modules: { 'a.rego': 'A2' } }))?.data, held.data);
  });
});

describe('static documents', () => {
  it('lie at their folders, below all others, in load order', () => {
    const content: PolicyContent = {
      ...HELD,
      data: [
        { folder: '.', text: ' {"a":1.0} ' },
        { folder: 'a%2Fb/c', text: '[1]' },
      ],
    };
    const layers = staticLayers(content);
    assert.deepEqual(
      layers.map(({ id, path, rank }) => ({ id, path, rank })),
      [
        { id: 'static:0', path: [], rank: { era: 0, seq: 0, index: 0 } },
        { id: 'static:1', path: ['a%2Fb', 'c'], rank: { era: 0, seq: 1, index: 0 } },
      ],
    );
  });

  for (const [folder, text, message] of [
    ['a/b', '{', /data file of folder a\/b in commit h1 is not JSON/],
    ['a', '', /not JSON/],
    ['a', '{} {}', /not JSON/],
    ['.', '[]', /root folder in commit h1 must be an object/],
    ['.', 'null', /must be an object/],
  ] as const) {
    it(`${JSON.stringify(text)} at ${folder} is refused`, () => {
      assert.throws(() => staticLayers({ ...HELD, data: [{ folder, text }] }), { code: 'engine_refused', message });
    });
  }

  it('are nested as deep below their folder as engines read, and no deeper', () => {
    const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
    staticLayers({ ...HELD, data: [{ folder: 'a/b', text: nested(9_998) }] });
    assert.throws(() => staticLayers({ ...HELD, data: [{ folder: 'a/b', text: nested(9_999) }] }), {
      code: 'engine_refused',
      message: /folder a\/b in commit h1 is nested too deep: .*10000 levels deep, and 2 of them are its path/,
    });
  });

  it('folders have one normal form', () => {
    for (const [folder, path] of [
      ['.', []],
      ['', []],
      ['a/b', ['a', 'b']],
      ['./a//b/', ['a', 'b']],
      ['..a', ['..a']],
    ] as const) {
      assert.deepEqual(folderPath(folder), path);
    }
  });
});

it('a module whose package has more names than one may have is named', () => {
  const content = (names: number): PolicyContent => ({
    hash: 'c1',
    modules: new Map([['x.rego', `package a${'.b'.repeat(names - 1)}`]]),
    data: [],
  });
  checkPackages(content(1_000), undefined);
  assert.throws(() => checkPackages(content(1_001), content(1_000)), {
    code: 'engine_refused',
    message: /^x\.rego in commit c1 has a package of 1001 names/,
  });
});
