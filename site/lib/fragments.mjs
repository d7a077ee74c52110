import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Throws if a link of a built page has a fragment that its target lacks. */
export function checkFragments(folder, base) {
  const files = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.html'));
  const html = new Map(
    files.map((file) => [
      `/${file.replace(/(^|\/)index\.html$|\.html$/, '$1')}`,
      readFileSync(join(folder, file), 'utf8'),
    ]),
  );
  const ids = new Map(
    [...html].map(([page, text]) => [page, new Set([...text.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))]),
  );
  const dead = [...html].flatMap(([page, text]) =>
    [...text.matchAll(/<a[^>]*\shref="([^"#]*)#([^"]+)"/g)].flatMap(([, path, fragment]) => {
      if (/^[a-z]+:/.test(path)) return [];
      const at = path === '' ? page : `/${path.slice(base.length)}`;
      return ids.get(at)?.has(decodeURIComponent(fragment)) ? [] : [`${page}: ${path}#${fragment}`];
    }),
  );
  if (dead.length > 0) throw new Error(`links to headings that are not there:\n  ${dead.join('\n  ')}`);
}
