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
  /^(src\/.*|test\/(contracts|conformance|flows|corpus|package|security|stories|deploy|docs|ui)\/.*|test\/[^/]*)\.test\.js$/;
const INTEROP_SUITE = /^test\/interop\/.*\.test\.js$/;

/**
 * Compiled test files of the wanted suites, relative to `build`; `filters` are parts of names, any of which must fit; `without`
 * are parts of which none may.
 */
export function testFiles(build, { suites, filters, without }) {
  const wanted = filters.map((filter) => filter.replace(/^\.\//, '').replace(/\.(ts|js)$/, ''));
  return ['src', 'test']
    .flatMap((folder) => filesBelow(join(build, folder)).map((file) => `${folder}/${file}`))
    .filter((file) => (suites.interop && INTEROP_SUITE.test(file)) || (suites.main && MAIN_SUITE.test(file)))
    .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
    .filter((file) => !without.some((part) => file.includes(part)));
}

/**
 * Those of the compiled test files that call one of the functions which `support` (a file of test/support) defines, by themselves
 * or by what they import.
 */
export function callersOf(build, files, { support, functions }) {
  const calls = new RegExp(`\\b(?:${functions.join('|')})\\(`);
  const known = new Map();
  const needs = (file) => {
    if (file === `test/support/${support}.js`) return false; // it has more, such as free ports
    if (known.has(file)) return known.get(file);
    known.set(file, false); // ends a circle
    const path = join(build, file);
    const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
    const imported = [...text.matchAll(/\bfrom '(\.[^']+)'/g)].map(([, name]) => posix.join(posix.dirname(file), name));
    known.set(file, calls.test(text) || imported.some(needs));
    return known.get(file);
  };
  return files.filter(needs);
}

/** Seconds that a file takes that test/plan.json does not name. */
const LIGHT_SECONDS = { unit: 0.3, other: 4 };
/** What light files that share a process take together: little enough to fill the end of a run evenly. */
const GROUP_SECONDS = 32;

/** The compiled file of a name in test/plan.json. */
const compiledName = (name) => `${name}.test.js`;

/**
 * How the files are run, longest first: those that take long, or that `alone` names, in a process of their own, the others many to
 * a process, by files written into `build/groups` that import them: a process for each would take most of their time. `late` are the
 * files that wait for programs which are still being made: they come last. Answers what is run, with the seconds that it may take.
 */
export function planOf(build, files, plan, late = []) {
  const seconds = new Map(Object.entries(plan.seconds).map(([name, value]) => [compiledName(name), value]));
  const alone = new Set(Object.keys(plan.alone).map(compiledName));
  rmSync(join(build, 'groups'), { recursive: true, force: true });
  mkdirSync(join(build, 'groups'), { recursive: true });
  const parts = [files.filter((file) => !late.includes(file)), files.filter((file) => late.includes(file))];
  return parts.flatMap((part, index) => {
    const own = part.filter((file) => seconds.has(file) || alone.has(file));
    const light = part.filter((file) => !own.includes(file));
    const runs = [
      ...own.map((file) => ({ file, seconds: seconds.get(file) ?? LIGHT_SECONDS.other })),
      ...grouped(build, light, index === 0 ? '' : 'late-'),
    ];
    return runs.sort((a, b) => b.seconds - a.seconds);
  });
}

function grouped(build, files, prefix) {
  return [...groupBy(files, kindOf)].flatMap(([kind, members]) => {
    const each = kind === 'unit' ? LIGHT_SECONDS.unit : LIGHT_SECONDS.other;
    const count = Math.ceil((members.length * each) / GROUP_SECONDS);
    return Array.from({ length: count }, (_, index) => {
      const own = members.filter((__, place) => place % count === index);
      const file = `groups/${prefix}${kind}-${index + 1}.test.js`;
      writeFileSync(join(build, file), own.map((member) => `import '../${member}';\n`).join(''));
      return { file, seconds: own.length * each };
    });
  });
}

/** As Map.groupBy, which Node 20 lacks. */
function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

/** What may share a process: `unit`, `flows`, `ui`, ... */
function kindOf(file) {
  const [top, folder, ...rest] = file.split('/');
  if (top === 'src') return 'unit';
  return rest.length === 0 ? 'pages' : folder;
}
