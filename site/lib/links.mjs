import { existsSync, statSync } from 'node:fs';
import { join, posix, relative, sep } from 'node:path';
import { addressOf, ROOT } from './pages.mjs';

/**
 * A rule for markdown-it: links between files of the repository become links between pages of the site. A link to a file that is no
 * page leads to `source` (where the files can be read) or, without that, is plain text. A link that leads nowhere ends the build.
 */
export function repositoryLinks(source) {
  return (md) => {
    md.core.ruler.push('repository_links', ({ tokens, env }) => {
      const file = env.realPath ?? env.path;
      if (file === undefined) return; // a title, not a page
      const page = relative(ROOT, file).split(sep).join('/');
      for (const { children } of tokens) {
        for (const token of children ?? []) {
          if (token.type === 'link_open') token.attrSet('href', target(page, token.attrGet('href'), source));
        }
        if (children) dropEmpty(children);
      }
    });
  };
}

/** The heading's fragment as git services make it, so that links work there and here. */
export function anchor(heading) {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(/\s/g, '-');
}

function target(page, href, source) {
  if (/^(?:[a-z]+:|#|\/)/.test(href)) return href;
  const [file, fragment] = href.split('#');
  const path = posix.join(posix.dirname(page), decodeURIComponent(file)).replace(/\/$/, '');
  const hash = fragment === undefined ? '' : `#${fragment}`;
  if (!existsSync(join(ROOT, path))) throw new Error(`${page}: the link to ${href} leads nowhere`);
  const isFolder = statSync(join(ROOT, path)).isDirectory();
  const address = addressOf(isFolder ? `${path}/README.md` : path);
  if (address !== undefined && existsSync(join(ROOT, isFolder ? `${path}/README.md` : path)))
    return `${address}${hash}`;
  return source === undefined ? '' : `${source}/${path}${hash}`;
}

/** Links without a target become what they are made of. */
function dropEmpty(children) {
  for (let at = 0; at < children.length; at++) {
    if (children[at].type !== 'link_open' || children[at].attrGet('href') !== '') continue;
    const end = children.findIndex((token, index) => index > at && token.type === 'link_close');
    children.splice(end, 1);
    children.splice(at--, 1);
  }
}
