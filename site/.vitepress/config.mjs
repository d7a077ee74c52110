import { cpSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { defineConfig } from 'vitepress';
import { checkFragments } from '../lib/fragments.mjs';
import { anchor, repositoryLinks } from '../lib/links.mjs';
import { addressOf, NO_PAGES, placeOf, ROOT, sidebar } from '../lib/pages.mjs';

/** Where the files of the repository can be read: a URL, to which their paths are added. */
const { SITE_SOURCE: source, SITE_BASE: base = '/' } = process.env;
const SITE = dirname(import.meta.dirname);
const { version, description } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

export default defineConfig({
  title: 'PolicySync',
  description,
  lang: 'en',
  base,
  cleanUrls: true,
  // Messages name addresses of the reader's own machine; every other dead link ends the build.
  ignoreDeadLinks: 'localhostLinks',
  // The pages are where they are in the repository, also for those who read them there.
  srcDir: '..',
  srcExclude: NO_PAGES,
  rewrites: (path) => placeOf(path) ?? path,
  outDir: '.vitepress/dist',
  cacheDir: '.vitepress/cache',
  markdown: {
    // The highlighter does not know Rego; its comments, strings, `import`, `if`, `in` and `not` are Python's.
    languageAlias: { rego: 'python' },
    anchor: { slugify: anchor },
    config: (md) => md.use(repositoryLinks(source)),
  },
  themeConfig: {
    logo: '/logo.svg',
    search: {
      provider: 'local',
      options: {
        detailedView: true,
        miniSearch: {
          // Guides before the pages for contributors, which name everything.
          searchOptions: { boostDocument: (id) => (/\/(?:internals|examples)\/|\/changelog/.test(id) ? 0.2 : 1) },
        },
      },
    },
    nav: [
      { text: 'Get started', link: addressOf('docs/start/quick-start.md') },
      { text: 'All pages', link: addressOf('docs/README.md') },
      { text: version, link: addressOf('CHANGELOG.md') },
    ],
    sidebar: sidebar(),
    outline: [2, 3],
    docFooter: { prev: 'Before', next: 'Next' },
    ...(source === undefined
      ? {}
      : { editLink: { pattern: ({ filePath }) => `${source}/${filePath}`, text: 'Source of this page' } }),
  },
  transformPageData: ({ filePath, frontmatter }) => {
    // Wide tables get the place of the outline; without headings there is none.
    const hasOutline =
      filePath !== 'docs/reference/settings.md' && /^##+ /m.test(readFileSync(join(ROOT, filePath), 'utf8'));
    return { frontmatter: { aside: hasOutline, ...frontmatter } };
  },
  vite: {
    // Pages above this folder find what they are rendered with in it.
    resolve: { alias: [{ find: /^vue(\/server-renderer)?$/, replacement: join(SITE, 'node_modules/vue$1') }] },
  },
  buildEnd: ({ outDir }) => {
    cpSync(join(SITE, 'public'), outDir, { recursive: true });
    checkFragments(outDir, base);
  },
});
