import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileIgnore, compileIgnoredBy } from './ignore.js';

const TABLE: Record<string, { matches: readonly string[]; leaves: readonly string[] }> = {
  '/': { matches: ['a', 'a/b.rego'], leaves: [] },
  '/**': { matches: ['a', 'a/b.rego'], leaves: [] },
  'bundle/**': { matches: ['bundle', 'bundle/a.rego', 'bundle/x/y/a.rego'], leaves: ['x/bundle/a.rego', 'bundles/a'] },
  'a/b/**': { matches: ['a/b/c', 'a/b/c/d'], leaves: ['a/c', 'x/a/b/c'] },
  './a//b/**': { matches: ['a/b/c'], leaves: ['b/c'] },
  'a*/**': { matches: ['a*/x'], leaves: ['ab/x'] },
  'Dir/**': { matches: ['Dir/x'], leaves: ['dir/x'] },
  'c.rego': { matches: ['c.rego', 'a/b/c.rego'], leaves: ['c.rego/x', 'xc.rego', 'c-rego'] },
  '*.rego': { matches: ['a.rego', 'a/b/c.rego', '.rego'], leaves: ['a.rego.txt', 'a/rego'] },
  'b/*.rego': { matches: ['b/c.rego', 'a/b/c.rego'], leaves: ['c.rego', 'b/x/c.rego'] },
  'a/*': { matches: ['a/x', 'z/a/x'], leaves: ['a/b/c.rego', 'a'] },
  '**/x.json': { matches: ['a/x.json', 'a/b/x.json'], leaves: ['x.json'] },
  '**': { matches: ['a', 'a/b'], leaves: [] },
  'a/**/c': { matches: ['a/b/c', 'z/a/b/c'], leaves: ['a/c', 'a/b/b/c'] },
  '/a.rego': { matches: [], leaves: ['a.rego', 'b/a.rego'] },
  '?.rego': { matches: ['a.rego', 'x/b.rego'], leaves: ['ab.rego', '.rego'] },
  '[ab].rego': { matches: ['a.rego', 'b.rego'], leaves: ['c.rego', '[ab].rego'] },
  '[!ab].rego': { matches: ['c.rego'], leaves: ['a.rego'] },
  '[]x].rego': { matches: ['].rego', 'x.rego'], leaves: ['a.rego'] },
  '[^a].rego': { matches: ['^.rego', 'a.rego'], leaves: ['b.rego'] },
  '[a.rego': { matches: ['[a.rego'], leaves: ['a.rego'] },
  '[z-a].rego': { matches: [], leaves: ['z.rego', 'm.rego'] },
  'a+(b)|c.rego': { matches: ['a+(b)|c.rego'], leaves: ['aab.rego', 'c.rego'] },
  'tests/': { matches: ['tests', 'a/tests'], leaves: ['tests/a'] },
  '': { matches: [], leaves: ['', 'a'] },
};

for (const [pattern, { matches, leaves }] of Object.entries(TABLE)) {
  test(`ignore pattern ${JSON.stringify(pattern)}`, () => {
    const ignore = compileIgnore([pattern]);
    for (const path of matches) assert.equal(ignore(path), true, `${path} should be left out`);
    for (const path of leaves) assert.equal(ignore(path), false, `${path} should stay`);
  });
}

test('a path is left out when any pattern matches, and none is without patterns', () => {
  const ignore = compileIgnore(['a/**', '*.md']);
  assert.deepEqual(['a/x', 'b/README.md', 'b/x'].map(ignore), [true, true, false]);
  assert.equal(compileIgnore([])('a'), false);
});

test('a pattern with many stars is compared in no time', () => {
  // Would not end in years if each star were tried with each length.
  const ignore = compileIgnore([`${'*a'.repeat(30)}b`, '**a**a**b']);
  assert.equal(ignore('a'.repeat(2000)), false);
  assert.equal(ignore(`${'xa'.repeat(1000)}b`), true);
});

test('names the first pattern that ignores a path', () => {
  const ignoredBy = compileIgnoredBy(['', 'a/**', '*_test.rego', '*.rego']);
  const paths = ['a/x_test.rego', 'b/x_test.rego', 'b/x.rego', 'b/data.json'];
  assert.deepEqual(paths.map(ignoredBy), ['a/**', '*_test.rego', '*.rego', undefined]);
});
