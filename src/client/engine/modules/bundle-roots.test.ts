import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { type DocPath, docPathText, isAtOrBelow, pathsOverlap } from '../../../wire/doc-path.js';
import { bundleRoots, groupedRoots } from './bundle-roots.js';

describe('roots of a bundle', () => {
  const TABLE: [string, string[], DocPath[], DocPath[]][] = [
    ['no policy has none', [], [], []],
    ['packages, each once', ['package a', 'package b.c', 'package a'], [], [['a'], ['b', 'c']]],
    ['a package inside another has none of its own', ['package a.b', 'package a', 'package a.b.c'], [], [['a']]],
    ['names that only share letters are apart', ['package a', 'package ab'], [], [['a'], ['ab']]],
    [
      'documents of the bundle before stay',
      ['package a'],
      [
        ['d', 'e'],
        ['a', 'x'],
      ],
      [['a'], ['d', 'e']],
    ],
    ['a document above a package is the root', ['package a.b'], [['a']], [['a']]],
    ['plain text is a segment as it is', ['package a["b c"].d'], [], [['a', 'b c', 'd']]],
    // OPA splits a root at each slash, and decodes what looks like an escape when it erases the
    // bundle before.
    [
      'a segment that a root cannot name is owned from above',
      ['package a["b/c"].d', 'package e["%20"]'],
      [],
      [['a'], ['e']],
    ],
    ['a module without a package has none: OPA will say so', ['x := 1', ''], [], []],
  ];
  for (const [what, modules, held, roots] of TABLE) {
    it(what, () => {
      const policy = { hash: 'h', modules: new Map(modules.map((rego, index) => [`${index}.rego`, rego])) };
      assert.deepEqual(bundleRoots(policy, held), roots);
    });
  }
});

describe('grouped roots', () => {
  const paths = (texts: string): DocPath[] => texts.split(' ').map((text) => text.split('/'));
  const TABLE: [string, number, string, string, string][] = [
    ['stay as they are where they are few', 4, 'a/b a/c d', '', 'a/b a/c d'],
    ['are one for a name with many', 3, 'a/b a/c a/d e', '', 'a e'],
    ['stay apart where the fewest are', 4, 'a/b a/c/d a/c/e e/f e/g', '', 'a e/f e/g'],
    ['stay as they are below a name with one', 2, 'x/y/a x/y/b x/y/c z/v/w', '', 'x z/v/w'],
    ['are never the root of all', 1, 'a b c/d c/e', '', 'a b c'],
    ['own nothing that is to stay apart', 1, 'a/b a/d/e a/d/f c/a c/b', 'a/x', 'a/b a/d/e a/d/f c'],
  ];
  for (const [what, most, roots, apart, expected] of TABLE) {
    it(what, () => {
      const found = groupedRoots(paths(roots), { most, apart: apart === '' ? [] : paths(apart) });
      assert.equal(
        found
          .map((path) => path.join('/'))
          .sort()
          .join(' '),
        expected,
      );
    });
  }

  it('own all that is to be owned, once each, and no more than they must', () => {
    const path = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(
        fc.array(path, { maxLength: 40 }),
        fc.nat(10),
        fc.array(path, { maxLength: 2 }),
        (list, most, near) => {
          const roots = bundleRoots({ hash: '', modules: new Map() }, list);
          const apart = near.filter((own) => !roots.some((root) => pathsOverlap(root, own)));
          const found = groupedRoots(roots, { most, apart });
          for (const root of roots) assert.equal(found.filter((group) => isAtOrBelow(root, group)).length, 1);
          for (const group of found) {
            assert(roots.some((root) => isAtOrBelow(root, group)) && group.length > 0);
            assert(!apart.some((own) => pathsOverlap(own, group)), docPathText(group));
          }
          const tops = new Set(roots.map(([first]) => first)).size;
          assert(apart.length > 0 || found.length <= Math.max(most, tops));
        },
      ),
    );
  });
});
