import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, posix, relative, sep } from 'node:path';

/** Files below a folder, with `/` in their names, sorted; none when there is no such folder. */
export function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}

/** Removes compiled files whose source is gone: a deleted test must not run, a deleted module must not be imported. */
export function removeStale(root, build) {
  const stale = [];
  for (const folder of ['src', 'test', 'scripts', 'bench', 'ui']) {
    for (const file of filesBelow(join(build, folder))) {
      const source = file.replace(/\.(js|js\.map|d\.ts)$/, '.ts');
      if (source === file || /^(?:docs-)?ui\//.test(file) || existsSync(join(root, folder, source))) continue;
      rmSync(join(build, folder, file));
      if (file.endsWith('.js')) stale.push(`${folder}/${file}`);
    }
  }
  return stale;
}

const MAIN_SUITE =
  /^(src\/.*|test\/(contracts|conformance|flows|corpus|package|security|deploy|docs|ui)\/.*|test\/[^/]*)\.test\.js$/;
const INTEROP_SUITE = /^test\/interop\/.*\.test\.js$/;
const UNIT_TEST = /^src\//;
/** Processes for the unit tests: enough to use a few cores, few enough to save what each start of one costs. */
const UNIT_GROUPS = 6;

/**
 * Compiled test files of the wanted suites, relative to `build`; `filters` are parts of names, any of which must fit; `without`
 * are parts of which none may.
 */
export function testFiles(build, { suites, filters, without }) {
  const wanted = filters.map((filter) => filter.replace(/^\.\//, '').replace(/\.(ts|js)$/, ''));
  const all = ['src', 'test']
    .flatMap((folder) => filesBelow(join(build, folder)).map((file) => `${folder}/${file}`))
    .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
    .filter((file) => !without.some((part) => file.includes(part)));
  return [
    ...(suites.interop ? all.filter((file) => INTEROP_SUITE.test(file)) : []),
    ...(suites.main ? all.filter((file) => MAIN_SUITE.test(file)) : []),
  ];
}

/** Defines what calls OPA. */
const OPA_SUPPORT = 'test/support/opa.js';
const CALLS_OPA = /\b(testOpa|startOpa)\(/;

/** Those of the compiled test files that call an OPA program, by themselves or by what they import. */
export function needOpa(build, files) {
  const known = new Map();
  const needs = (file) => {
    if (file === OPA_SUPPORT) return false; // it has more, such as free ports
    if (known.has(file)) return known.get(file);
    known.set(file, false); // ends a circle
    const path = join(build, file);
    const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
    const imported = [...text.matchAll(/\bfrom '(\.[^']+)'/g)].map(([, name]) => posix.join(posix.dirname(file), name));
    known.set(file, CALLS_OPA.test(text) || imported.some(needs));
    return known.get(file);
  };
  return files.filter(needs);
}

/**
 * The same tests with some files put together, in files written into `build/groups` that import them. Tests of units take
 * milliseconds: a process for each file would take most of their time. Those of interop mostly wait: one after the other
 * they leave room for others. (Node runs files in the order of their names, so these are the first.)
 */
export function groupTests(build, files) {
  const units = files.filter((file) => UNIT_TEST.test(file));
  const groups = { interop: files.filter((file) => INTEROP_SUITE.test(file)) };
  for (const [index, file] of units.entries()) {
    const name = `unit-${(index % UNIT_GROUPS) + 1}`;
    groups[name] = [...(groups[name] ?? []), file];
  }
  rmSync(join(build, 'groups'), { recursive: true, force: true });
  mkdirSync(join(build, 'groups'), { recursive: true });
  const made = Object.entries(groups)
    .filter(([, members]) => members.length > 0)
    .map(([name, members]) => {
      const file = `groups/${name}.test.js`;
      writeFileSync(join(build, file), members.map((member) => `import '../${member}';\n`).join(''));
      return file;
    });
  return [...made, ...files.filter((file) => !UNIT_TEST.test(file) && !INTEROP_SUITE.test(file))];
}
