import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repoRoot } from './repo.js';

/** Paths of the files below a folder of the repository whose names match, folders of recorded histories left out. */
export function filesBelow(folder: string, pattern: RegExp): string[] {
  return readdirSync(join(repoRoot(), folder), { withFileTypes: true }).flatMap((item) => {
    const path = `${folder}/${item.name}`;
    if (item.isDirectory()) return item.name === 'corpus' ? [] : filesBelow(path, pattern);
    return pattern.test(item.name) ? [path] : [];
  });
}

/** Pages outside of docs/. */
const AT_THE_TOP = ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'SUPPORT.md', 'bench/README.md'];

/** The pages that people read: at the top of the repository, in docs/, beside the benchmark and the examples. */
export function pages(): string[] {
  const examples = filesBelow('examples', /README\.md$/).filter((path) => !path.includes('/node_modules/'));
  return [...AT_THE_TOP, ...filesBelow('changes', /^README\.md$/), ...filesBelow('docs', /\.md$/), ...examples];
}

export function read(path: string): string {
  return readFileSync(join(repoRoot(), path), 'utf8');
}

export function exists(path: string): boolean {
  return existsSync(join(repoRoot(), path));
}

/** Headings of a page without their marks; lines of code blocks are none. */
export function headings(page: string): string[] {
  return [...page.replace(/^```.*?^```/gms, '').matchAll(/^#+ (.+)$/gm)].map(([, text = '']) => text);
}

/** The fragment by which a link finds a heading, as git services make it. */
export function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
}
