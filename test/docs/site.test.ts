import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { repoRoot } from '../support/repo.js';
import { anchor, filesBelow, headings, read } from '../support/repo-pages.js';

/** What this test needs of `site/lib`, which is not compiled with the rest. */
interface Pages {
  addressOf(path: string): string | undefined;
  sidebar(list?: string): { text: string; items: { text: string; link: string }[] }[];
}
interface Token {
  readonly type: string;
  attrGet(name: string): string;
  attrSet(name: string, value: string): void;
}
type Rule = (state: { tokens: { children: Token[] }[]; env: { path: string } }) => void;
interface Links {
  repositoryLinks(source?: string): (md: { core: { ruler: { push(name: string, rule: Rule): void } } }) => void;
}

const part = async (name: string): Promise<unknown> =>
  await import(pathToFileURL(join(repoRoot(), 'site', 'lib', `${name}.mjs`)).href);
interface Redirects {
  readonly REDIRECTS: ReadonlyMap<string, string>;
  redirectFiles(base?: string): ReadonlyMap<string, string>;
}

const { addressOf, sidebar } = (await part('pages')) as Pages;
const { repositoryLinks } = (await part('links')) as Links;
const { REDIRECTS, redirectFiles } = (await part('redirects')) as Redirects;

test('every page of docs/ is in the navigation of the site, under the words of docs/README.md', () => {
  const listed = sidebar().flatMap(({ items }) => items.map(({ link }) => link));
  for (const page of filesBelow('docs', /\.md$/)) {
    if (page !== 'docs/README.md') assert(listed.includes(addressOf(page) ?? ''), `${page} is not in docs/README.md`);
  }
  assert.deepEqual(listed.toSorted(), [...new Set(listed)].toSorted(), 'no page twice');
  assert.deepEqual(
    sidebar(
      '## Guides\n\n| Page | About |\n|---|---|\n| [Engine](engine.md), [TLS](tls.md) | see [all](README.md) |\n',
    ),
    [
      {
        text: 'Guides',
        items: [
          { text: 'Engine', link: '/engine' },
          { text: 'TLS', link: '/tls' },
        ],
        collapsed: undefined,
      },
    ],
  );
});

test('a former address leads to a page and a heading that are there, and hides no page', () => {
  const pages = new Map(filesBelow('docs', /\.md$/).map((page) => [addressOf(page) ?? '', page]));
  const dead = [...REDIRECTS].filter(([from, to]) => {
    const [address = '', fragment] = to.split('#');
    const page = pages.get(address);
    if (page === undefined || pages.has(from)) return true;
    return fragment !== undefined && !headings(read(page)).map(anchor).includes(fragment);
  });
  assert.deepEqual(dead, []);
});

test('a former address is a static page that leads on, below the path of the site', () => {
  const files = redirectFiles('/policysync/');
  assert.equal(files.size, REDIRECTS.size);
  assert.match(files.get('tls.html') ?? '', /content="0; url=\/policysync\/how-to\/secure#tls-and-proxies"/);
  assert.match(redirectFiles().get('engine.html') ?? '', /<a href="\/how-to\/engine">/);
});

test('the first page of the site leads to pages that are there', () => {
  const addresses = ['docs', 'examples'].flatMap((folder) => filesBelow(folder, /\.md$/).map(addressOf));
  const links = [...read('site/index.md').matchAll(/^ +link: (.+)$/gm)].map(([, link]) => link);
  assert(links.length > 3);
  for (const link of links) assert(addresses.includes(link), link);
});

/** What becomes of a link from docs/how-to/engine.md. */
function made(href: string, source?: string): string | undefined {
  let target: string | undefined = href;
  const token: Token = {
    type: 'link_open',
    attrGet: () => target ?? '',
    attrSet: (_name, value) => {
      target = value;
    },
  };
  const children = [token, { ...token, type: 'link_close' }];
  let rule: Rule | undefined;
  const push = (_name: string, made: Rule): void => {
    rule = made;
  };
  repositoryLinks(source)({ core: { ruler: { push } } });
  assert(rule);
  rule({ tokens: [{ children }], env: { path: join(repoRoot(), 'docs', 'how-to', 'engine.md') } });
  return children.length === 0 ? undefined : target;
}

test('links between files of the repository work in the site', () => {
  assert.equal(made('several-instances.md#redis'), '/how-to/several-instances#redis');
  assert.equal(made('../internals/design.md'), '/internals/design');
  assert.equal(made('../../CHANGELOG.md'), '/changelog');
  assert.equal(made('../../examples/app/README.md'), made('../../examples/app'));
  assert.equal(made('https://example.com/a.md'), 'https://example.com/a.md');
  assert.equal(made('#marker'), '#marker');
});

test('a file that is no page is a link to the sources, or no link where they are nowhere to be read', () => {
  assert.equal(made('../../src/index.ts', 'https://git.example/src'), 'https://git.example/src/src/index.ts');
  assert.equal(made('../../src/index.ts'), undefined);
});

test('a link that leads nowhere ends the build', () => {
  assert(!existsSync(join(repoRoot(), posix.join('docs', 'nowhere.md'))));
  assert.throws(() => made('nowhere.md'), /docs\/how-to\/engine\.md: the link to nowhere\.md leads nowhere/);
});
