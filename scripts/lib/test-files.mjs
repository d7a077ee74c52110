import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

/** Files below a folder, with `/` in their names, sorted; none when there is no such folder. */
function filesBelow(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'))
    .sort();
}

/** Removes compiled files whose source is gone: a deleted test must not run, a deleted module must not be imported. */
export function removeStale(root, build) {
  const stale = [];
  for (const folder of ['src', 'test', 'scripts', 'bench']) {
    for (const file of filesBelow(join(build, folder))) {
      const source = file.replace(/\.(js|js\.map|d\.ts)$/, '.ts');
      if (source === file || existsSync(join(root, folder, source))) continue;
      rmSync(join(build, folder, file));
      if (file.endsWith('.js')) stale.push(`${folder}/${file}`);
    }
  }
  return stale;
}

const MAIN_SUITE = /^(src\/.*|test\/(contracts|flows|corpus)\/.*|test\/[^/]*)\.test\.js$/;
const INTEROP_SUITE = /^test\/interop\/.*\.test\.js$/;

/** Compiled test files of a suite, relative to `build`; `filters` are parts of names, any of which must fit. */
export function testFiles(build, { interop, filters }) {
  const wanted = filters.map((filter) => filter.replace(/^\.\//, '').replace(/\.(ts|js)$/, ''));
  return ['src', 'test']
    .flatMap((folder) => filesBelow(join(build, folder)).map((file) => `${folder}/${file}`))
    .filter((file) => (interop ? INTEROP_SUITE : MAIN_SUITE).test(file))
    .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)));
}
