import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { repoRoot } from '../support/repo.js';
import { filesBelow, read } from '../support/repo-pages.js';

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
const { addressOf, sidebar } = (await part('pages')) as Pages;
const { repositoryLinks } = (await part('links')) as Links;

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

test('the first page of the site leads to pages that are there', () => {
  const addresses = ['docs', 'examples'].flatMap((folder) => filesBelow(folder, /\.md$/).map(addressOf));
  const links = [...read('site/index.md').matchAll(/^ +link: (.+)$/gm)].map(([, link]) => link);
  assert(links.length > 3);
  for (const link of links) assert(addresses.includes(link), link);
});

/** What becomes of a link from docs/engine.md. */
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
  rule({ tokens: [{ children }], env: { path: join(repoRoot(), 'docs', 'engine.md') } });
  return children.length === 0 ? undefined : target;
}

test('links between files of the repository work in the site', () => {
  assert.equal(made('tls.md#proxies'), '/tls#proxies');
  assert.equal(made('internals/design.md'), '/internals/design');
  assert.equal(made('../CHANGELOG.md'), '/changelog');
  assert.equal(made('../examples/app/README.md'), made('../examples/app'));
  assert.equal(made('https://example.com/a.md'), 'https://example.com/a.md');
  assert.equal(made('#marker'), '#marker');
});

test('a file that is no page is a link to the sources, or no link where they are nowhere to be read', () => {
  assert.equal(made('../src/index.ts', 'https://git.example/src'), 'https://git.example/src/src/index.ts');
  assert.equal(made('../src/index.ts'), undefined);
});

test('a link that leads nowhere ends the build', () => {
  assert(!existsSync(join(repoRoot(), posix.join('docs', 'nowhere.md'))));
  assert.throws(() => made('nowhere.md'), /docs\/engine\.md: the link to nowhere\.md leads nowhere/);
});
