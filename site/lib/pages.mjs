import { readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';

/** The repository. */
export const ROOT = dirname(dirname(import.meta.dirname));

/** Pages outside of docs/ that documentation links to, with their places in the site. */
const OUTSIDE = new Map([
  ['site/index.md', 'index.md'],
  ['CHANGELOG.md', 'changelog.md'],
  ['CONTRIBUTING.md', 'contributing.md'],
  ['SECURITY.md', 'security-policy.md'],
  ['SUPPORT.md', 'support.md'],
  ['bench/README.md', 'internals/benchmark.md'],
]);

/** Where a file of the repository is in the site; undefined for a file that is no page. */
export function placeOf(path) {
  const outside = OUTSIDE.get(path);
  if (outside !== undefined) return outside;
  if (path === 'docs/README.md') return 'pages.md';
  if (path.startsWith('docs/') && path.endsWith('.md')) return path.slice('docs/'.length);
  const example = /^examples\/(.+)\/README\.md$/.exec(path);
  return example === null ? undefined : `examples/${example[1]}.md`;
}

/** Globs of the Markdown files that are no pages. */
export const NO_PAGES = [
  '!(CHANGELOG|CONTRIBUTING|SECURITY|SUPPORT).md',
  '!(docs|examples|bench|site)/**/*',
  'bench/!(README).md',
  'examples/**/!(README).md',
  'site/!(index).md',
];

/** The address of a page: `/engine`, `/` for the first. */
export function addressOf(path) {
  const place = placeOf(path);
  return place === undefined ? undefined : `/${place.replace(/(?:^|(?<=\/))index\.md$|\.md$/, '')}`;
}

/**
 * The navigation: the headings and tables of docs/README.md. A page that is listed there is in the navigation, under the words of its
 * link, and no other.
 */
export function sidebar(list = readFileSync(join(ROOT, 'docs', 'README.md'), 'utf8')) {
  const groups = [];
  for (const line of list.split('\n')) {
    const heading = /^#{2,3} (.+)$/.exec(line);
    if (heading !== null) groups.push({ text: heading[1], items: [] });
    const [, cell] = line.startsWith('|') ? line.split('|') : [];
    for (const [, text, target] of (cell ?? '').matchAll(/\[([^\]]+)\]\(([^)#]+)\)/g)) {
      const link = addressOf(posix.join('docs', target));
      if (link === undefined) throw new Error(`docs/README.md lists ${target}, which is no page of the site`);
      groups.at(-1)?.items.push({ text: capital(text), link });
    }
  }
  const used = groups.filter(({ items }) => items.length > 0);
  return used.map(({ text, items }, at) => ({ text, items, collapsed: at === 0 ? undefined : text === 'Internals' }));
}

function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
