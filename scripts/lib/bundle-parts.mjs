import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Parts of undici that nothing here uses, and that make a third of its memory. Its entry loads all of it. */
const UNUSED_OF_UNDICI = /[\\/]undici[\\/]lib[\\/](?:mock|web[\\/](?:websocket|eventsource))[\\/]/;

/** Stands for every export of a part that is left out; making one fails. */
const ABSENT = `module.exports = new Proxy({}, {
  get: () => class { constructor() { throw new Error('this part of undici is not in the bundle (scripts/lib/bundle-parts.mjs)'); } },
});`;

/** esbuild plugin: leaves out what is not used of undici. */
export const undiciParts = {
  name: 'undici-parts',
  setup: (build) => build.onLoad({ filter: UNUSED_OF_UNDICI }, () => ({ contents: ABSENT, loader: 'js' })),
};

/**
 * esbuild plugin: leaves out what our sources below `root` do not use of zod, above all its messages in fifty languages.
 * esbuild sees what is used of a namespace import, and not of the export `z`; they are the same.
 */
export const zodParts = (root) => ({
  name: 'zod-parts',
  setup(build) {
    build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      if (!path.startsWith(join(root, 'src'))) return undefined;
      const contents = readFileSync(path, 'utf8').replace("import { z } from 'zod'", "import * as z from 'zod'");
      return { contents, loader: 'ts' };
    });
  },
});

/**
 * esbuild plugin: `await import('undici')` answers the names that it has in Node. Of a CommonJS package esbuild itself
 * answers its default export alone.
 */
export const namedDynamicImports = (packages) => ({
  name: 'named-dynamic-imports',
  setup(build) {
    build.onResolve({ filter: /^[^./]/ }, ({ path, kind, resolveDir }) =>
      kind === 'dynamic-import' && packages.includes(path)
        ? { path, namespace: 'named', pluginData: resolveDir }
        : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: 'named' }, async ({ path, pluginData: resolveDir }) => {
      const names = Object.keys(await import(path)).filter((name) => /^[\w$]+$/.test(name));
      return { contents: `export { ${names.join(', ')} } from ${JSON.stringify(path)};`, loader: 'js', resolveDir };
    });
  },
});
