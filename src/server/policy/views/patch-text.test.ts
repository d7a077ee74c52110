import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commitState } from './branch-commits.js';
import { readPatch } from './patch-text.js';

const LIMITS = { fileLines: 100, lines: 1000, lineChars: 50 };

const PATCH = [
  'diff --git a/a.rego b/a.rego',
  'index 1..2 100644',
  '--- a/a.rego',
  '+++ b/a.rego',
  '@@ -1,3 +1,4 @@ package a',
  ' one',
  '-two',
  '--- two',
  '++++ b/a.rego',
  '+diff --git a/x b/x',
  '+@@ -1 +1 @@',
  '\\ No newline at end of file',
  '@@ -9 +10 @@',
  '-nine',
  '+ten',
  'diff --git a/b.json b/b.json',
  'old mode 100644',
  'new mode 100755',
  'diff --git a/c b/c',
  'Binary files a/c and b/c differ',
  'diff --git a/d b/d',
  '@@ -1,2 +1,2 @@',
  '',
  '-x',
  '+y',
  '',
].join('\n');

/** `+1 text`, `-1 text` or `1 1 text` for each line. */
function shown(text: string, isCut = false, limits = LIMITS): unknown[] {
  return readPatch(text, isCut, limits).map(({ hunks, truncated }) => [
    truncated,
    ...hunks.map(({ header, lines }) => [
      header,
      ...lines.map(({ old, new: fresh, text: content }) => `${old ?? '+'} ${fresh ?? '-'} ${content}`),
    ]),
  ]);
}

test('lines have their numbers, and no content is taken for a header', () => {
  assert.deepEqual(shown(PATCH), [
    [
      false,
      [
        '@@ -1,3 +1,4 @@ package a',
        ...['1 1 one', '2 - two', '3 - -- two', '+ 2 +++ b/a.rego', '+ 3 diff --git a/x b/x', '+ 4 @@ -1 +1 @@'],
      ],
      ['@@ -9 +10 @@', '9 - nine', '+ 10 ten'],
    ],
    [false],
    [false],
    [false, ['@@ -1,2 +1,2 @@', '1 1 ', '2 - x', '+ 2 y']],
  ]);
});

test('what is too long is cut, and said to be', () => {
  const [first, ...others] = shown(PATCH, false, { ...LIMITS, fileLines: 2 });
  assert.deepEqual(first, [true, ['@@ -1,3 +1,4 @@ package a', '1 1 one', '2 - two']]);
  assert.deepEqual(others.at(-1), [true, ['@@ -1,2 +1,2 @@', '1 1 ', '2 - x']]);
  assert.deepEqual(
    readPatch(PATCH, false, { ...LIMITS, lines: 3 }).map(({ hunks, truncated }) => [truncated, hunks.length]),
    [
      [true, 1],
      [false, 0],
      [false, 0],
      [true, 0],
    ],
  );
  const long = `diff --git a/a b/a\n@@ -0,0 +1 @@\n+${'x'.repeat(60)}\n`;
  assert.deepEqual(shown(long), [[true, ['@@ -0,0 +1 @@', `+ 1 ${'x'.repeat(50)}…`]]]);
});

test('a text that ends anywhere is read up to there', () => {
  for (let length = 0; length < PATCH.length; length++) {
    const files = readPatch(PATCH.slice(0, length), true, LIMITS);
    assert(files.length <= 4);
    for (const { truncated } of files.slice(0, -1)) assert.equal(truncated, false);
    if (files.length > 0) assert.equal(files.at(-1)?.truncated, true);
  }
});

test('a commit is the head, refused, served before, not served yet, older than what is known, or replaced', () => {
  const nothing = { isHead: false, isRefused: false, wasServed: false, isNewest: false, isOlder: false };
  const states = [
    { isHead: true, wasServed: true, isNewest: true },
    { isRefused: true, isNewest: true },
    { wasServed: true, isNewest: true },
    { isNewest: true, isOlder: true },
    { isOlder: true },
    {},
  ].map((known) => commitState({ ...nothing, ...known }));
  assert.deepEqual(states, ['head', 'refused', 'served', 'found', 'older', 'replaced']);
});
