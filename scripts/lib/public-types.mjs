import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';

/** Packages that are bundled and whose types are part of ours: their declarations go in, too. */
const BROUGHT = ['zod'];
const SPECIFIER = /(\bfrom\s*|\bimport\s*\(\s*|\bimport\s*)(['"])([^'"]+)\2/g;

/**
 * Leaves in `out` the declarations that the package's entry points reach, and makes them complete: those of bundled packages come
 * into `out/types`, since nobody who installs the package has them.
 */
export function keepPublicTypes(root, out) {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.values(exports).flatMap(({ types }) => (types === undefined ? [] : [types]));
  const kept = reached(entries.map((entry) => join(out, relative('dist', entry))));
  const all = readdirSync(out, { recursive: true, encoding: 'utf8' }).map((file) => join(out, file));
  for (const file of all) if (/\.d\.c?ts$/.test(file) && !kept.has(file)) rmSync(file);
  for (const name of BROUGHT) bring(root, out, name, kept);
}

/** The declarations, and all that they reach by relative imports. */
function reached(files, found = new Set()) {
  for (const file of files.filter((one) => !found.has(one))) {
    found.add(file);
    const specifiers = [...readFileSync(file, 'utf8').matchAll(SPECIFIER)].map(([, , , specifier]) => specifier);
    const own = specifiers.filter((specifier) => specifier.startsWith('.'));
    reached(
      own.map((specifier) => join(dirname(file), specifier.replace(/\.js$/, '.d.ts'))),
      found,
    );
  }
  return found;
}

/** Copies the declarations of a package as they are, and points those of ours that import it there. */
function bring(root, out, name, files) {
  const from = join(root, 'node_modules', name);
  const to = join(out, 'types', name);
  for (const file of reached([join(from, 'index.d.ts')])) cpSync(file, join(to, relative(from, file)));
  for (const file of files) {
    const path = relative(dirname(file), join(to, 'index.js')).split(sep).join('/');
    const text = readFileSync(file, 'utf8').replace(SPECIFIER, (all, before, quote, specifier) =>
      specifier === name ? `${before}${quote}${path.startsWith('.') ? path : `./${path}`}${quote}` : all,
    );
    writeFileSync(file, text);
  }
}
