import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Parts of undici that its entry loads for those who import them, `fetch` and WebSocket above all: nothing here does. They took
 * some 40 ms of a start (a profile).
 */
const UNUSED_OF_UNDICI = /^\.\/lib\/(?:mock|web|cache)\/|^\.\/lib\/interceptor\/(?:cache|decompress|deduplicate|dns)$/;
const ENTRY_OF_UNDICI = /[\\/]undici[\\/]index\.js$/;

/** Stands for every export of a part that is left out; making one fails. The entry makes one itself, with a symbol of its own. */
const ABSENT = `module.exports = new Proxy({}, {
  get: () => class {
    constructor(key) {
      if (typeof key !== 'symbol') throw new Error('this part of undici is not in the bundle (scripts/lib/bundle-parts.mjs)');
    }
  },
});`;

/** esbuild plugin: leaves out what is not used of undici. */
export const undiciParts = {
  name: 'undici-parts',
  setup(build) {
    build.onResolve({ filter: UNUSED_OF_UNDICI }, ({ path, importer }) =>
      ENTRY_OF_UNDICI.test(importer) ? { path, namespace: 'absent' } : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: 'absent' }, () => ({ contents: ABSENT, loader: 'js' }));
  },
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
