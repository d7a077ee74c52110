import assert from 'node:assert/strict';
import { test } from 'node:test';
import { anchor, exists, filesBelow, headings, pages, read } from './support/repo-pages.js';
import { specRows } from './support/spec-page.js';
import { brokenReferences, referencesOf } from './support/test-references.js';

/** What comments cite exists: decisions, facts about OPAL, rows of the specification, pages. */

const DESIGN = read('docs/internals/design.md');
const SPECIFICATION = read('docs/internals/specification.md');
const NUMBERS = new Set(
  [...headings(DESIGN), ...headings(read('docs/internals/opal-protocol.md'))].map(
    (heading) => heading.split(' ')[0] ?? '',
  ),
);
const ROWS = new Set([
  ...headings(SPECIFICATION).map((name) => `"${name}"`),
  ...specRows(SPECIFICATION).map(({ id }) => id),
]);

/** A citation, and how a list of them goes on: `design D12, D13`, `opal-protocol P1.3 to P1.9`. */
const NUMBERED = /\b(?:design|opal-protocol) ([DP]\d[\d.]*\d|[DP]\d)((?:(?:,| and| to) [DP]\d+(?:\.\d+)?)*)/g;
const OF_SPECIFICATION = /\bspecification ("[^"]+"|[a-z][a-z-]*\.[\w-]+)/g;
const PAGE = /\b(docs\/[\w./-]+\.md)(?:#([\w-]+))?/g;
/** Words that only a citation has, and that lead nowhere. */
const NOWHERE =
  /\bprotocol-facts\b|\b[Dd]esign \d|\b[Ss]pec(?= ["A-Z]|,|;|\))|\bthe spec\b|\bsharp edge\b|\bedge \d|(?<![-\w]\/[-\w]+ )\bissue \d/;

/** The comments of a source text; a comment of several lines is one. */
function commentsOf(source: string): string[] {
  const comments: string[] = [];
  let isInside = false;
  for (const line of source.split('\n')) {
    const [, text] = /^\s*(?:\/\*\*?|\*|\/\/)(.*)$/.exec(line) ?? /\s\/\/ (.*)$/.exec(line) ?? [];
    if (text === undefined) isInside = false;
    else if (isInside) comments.push(`${comments.pop()} ${text.trim()}`);
    else comments.push(text.trim());
    isInside = text !== undefined;
  }
  return comments;
}

/** Whether a page is there, and the heading of it that is named. */
function leadsSomewhere([, path = '', fragment]: RegExpMatchArray): boolean {
  if (!exists(path)) return false;
  return fragment === undefined || headings(read(path)).some((heading) => anchor(heading) === fragment);
}

/** What of a text leads nowhere. */
function brokenCitations(text: string): string[] {
  const numbers = [...text.matchAll(NUMBERED)].flatMap(([, first = '', more = '']) => [
    first,
    ...(more.match(/[DP][\d.]+/g) ?? []),
  ]);
  const rows = [...text.matchAll(OF_SPECIFICATION)].map(([, row = '']) => row);
  const paths = [...text.matchAll(PAGE)].filter((link) => !leadsSomewhere(link));
  return [
    ...numbers.filter((number) => !NUMBERS.has(number)),
    ...rows.filter((row) => !ROWS.has(row)),
    ...paths.map(([path]) => path),
    ...(NOWHERE.exec(text) ?? []),
  ];
}

test('every citation in a comment leads to what is there', () => {
  const files = ['src', 'test', 'bench', 'scripts', 'examples'].flatMap((folder) => filesBelow(folder, /\.(ts|mjs)$/));
  const broken = files
    .filter((file) => file !== 'test/citations.test.ts')
    .flatMap((file) =>
      commentsOf(read(file))
        .flatMap(brokenCitations)
        .map((what) => `${file}: ${what}`),
    );
  assert.deepEqual(broken, []);
});

test('every page that a message, a help text or another page names is there', () => {
  const folders = ['src', 'ui/src', 'docs', 'deploy', 'examples', 'scripts', 'schema', 'site/lib', 'bench', '.github'];
  const files = folders.flatMap((folder) => filesBelow(folder, /\.(?:[cm]?[jt]s|md|json|ya?ml|tpl|conf|service)$/));
  const named = [...files, ...pages()].map((file) => ({ file, links: [...read(file).matchAll(PAGE)] }));
  assert(named.filter(({ links }) => links.length > 0).length > 30, 'links to pages were not found');
  assert.deepEqual(
    named.flatMap(({ file, links }) =>
      links.filter((link) => !leadsSomewhere(link)).map(([link]) => `${file}: ${link}`),
    ),
    [],
  );
});

test('a citation that leads nowhere is found, whatever its form', () => {
  for (const text of [
    'so it is (design D99)',
    'so it is (design D1, D99)',
    'see opal-protocol P77.1',
    '(specification "No such heading")',
    '(specification no-such.row)',
    'in docs/none.md',
    'in docs/internals/design.md#none',
    '(design 9.4)',
    'protocol-facts 2.1',
    '(spec "Events")',
    'as of issue 4',
  ]) {
    assert.notDeepEqual(brokenCitations(text), [], text);
  }
  for (const text of [
    '(design D1, D2)',
    'opal-protocol P1.3 to P1.9',
    '(specification "Events")',
    'redis/redis#14541',
  ]) {
    assert.deepEqual(brokenCitations(text), [], text);
  }
});

test('every decision has its number in order, a reason, and tests that are there', () => {
  const decisions = DESIGN.split(/^### /m).slice(1);
  assert.deepEqual(
    decisions.map((text) => text.split(' ')[0]),
    decisions.map((_text, index) => `D${index + 1}`),
  );
  const problems = decisions.flatMap((text) => {
    const [name = ''] = text.split('\n');
    const [, shown] = /\*Shown by:\*(.*?)(?:\n## |$)/s.exec(text) ?? [];
    if (!/^\*Why:\* \S/m.test(text) || shown === undefined) return [`${name}: no reason, or no test`];
    const { references, rest } = referencesOf(shown.replaceAll(/\s+/g, ' '));
    return [
      ...(/^[; ]*$/.test(rest) && references.length > 0 ? [] : [`${name}: ${rest}`]),
      ...brokenReferences(name, references),
    ];
  });
  assert.deepEqual(problems, []);
});
