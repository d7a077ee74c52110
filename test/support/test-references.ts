import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repoRoot } from './repo.js';
import { testNames } from './test-names.js';

/** A test that a page refers to. */
export interface TestReference {
  readonly file: string;
  readonly name: string;
}

/** A file that runs a shared suite has the tests of that suite, too. */
const SUITE = /from '\.\.\/(support\/[\w-]+-(?:suite|contract))\.js'/g;
/** Files that `npm test` runs (scripts/lib/test-files.mjs). */
const IN_SUITE = /^(src\/.*|test\/(contracts|flows|corpus|security|ui)\/.*|test\/[^/]*)\.test\.ts$/;

/** References are `` `file` "name", "name" ``; `rest` is what of the text is none. */
export function referencesOf(text: string): { readonly references: readonly TestReference[]; readonly rest: string } {
  const group = /`([^`]+)`((?:,? "(?:[^"\\]|\\.)*")+)/g;
  const references = [...text.matchAll(group)].flatMap(([, file = '', names = '']) =>
    [...names.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, name = '']) => ({ file, name: name.replace(/\\(.)/g, '$1') })),
  );
  return { references, rest: text.replace(group, '').replaceAll('<br>', '').trim() };
}

/** What is wrong with the references of `who`: files that are no tests, and tests that do not exist. */
export function brokenReferences(who: string, references: readonly TestReference[]): string[] {
  return references.flatMap(({ file, name }) => {
    const path = join(repoRoot(), file);
    if (!IN_SUITE.test(file) || !existsSync(path)) return [`${who}: ${file} is no test file`];
    return testNames(withSuites(path)).has(name) ? [] : [`${who}: ${file} has no test "${name}"`];
  });
}

/** The text of a test file, and of the suites that it runs. */
function withSuites(path: string): string {
  const text = readFileSync(path, 'utf8');
  const suites = [...text.matchAll(SUITE)].map(([, name]) => join(repoRoot(), `test/${name}.ts`));
  return [text, ...suites.map((suite) => readFileSync(suite, 'utf8'))].join('\n');
}
