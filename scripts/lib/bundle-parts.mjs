import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Parts of undici that its entry loads for those who import them, `fetch` and WebSocket above all: nothing here does. They took
 * some 40 ms of a start (a profile).
 */
const UNUSED_OF_UNDICI = {
  what: /^\.\/lib\/(?:mock|web|cache)\/|^\.\/lib\/interceptor\/(?:cache|decompress|deduplicate|dns)$/,
  importer: /[\\/]undici[\\/]index\.js$/,
};
/** HTTP/2, which undici speaks where it was asked to. */
const HTTP2_OF_UNDICI = { what: /^\.\/client-h2(?:\.js)?$/, importer: /[\\/]undici[\\/]lib[\\/]dispatcher[\\/]/ };
/** Fastify's compilers of JSON schemas, 400 KB of source: our routes have none (`src/http/app.ts`). */
const COMPILERS_OF_FASTIFY = {
  what: /^@fastify\/(?:ajv|fast-json-stringify)-compiler$/,
  importer: /[\\/]fastify[\\/]lib[\\/]schema-controller\.js$/,
};
const UNUSED = [UNUSED_OF_UNDICI, HTTP2_OF_UNDICI, COMPILERS_OF_FASTIFY];

/**
 * Stands for every export of a part that is left out; making or calling one fails. undici's entry makes one itself, with a symbol of its
 * own.
 */
const ABSENT = `module.exports = new Proxy(function absent() {}, {
  get: () => class {
    constructor(key) {
      if (typeof key !== 'symbol') throw new Error('this part of a package is not in the bundle (scripts/lib/bundle-parts.mjs)');
    }
  },
  apply: () => {
    throw new Error('this part of a package is not in the bundle (scripts/lib/bundle-parts.mjs)');
  },
});`;

/** esbuild plugin: leaves out what is not used of undici and Fastify. */
export const unusedParts = {
  name: 'unused-parts',
  setup(build) {
    for (const { what, importer } of UNUSED) {
      build.onResolve({ filter: what }, (asked) =>
        importer.test(asked.importer) ? { path: asked.path, namespace: 'absent' } : undefined,
      );
    }
    build.onLoad({ filter: /.*/, namespace: 'absent' }, () => ({ contents: ABSENT, loader: 'js' }));
  },
};

/** What Fastify loads at its start and uses for HTTP/2, or for plugins that name the versions of Fastify that they are for. */
const SELDOM_USED_BY_FASTIFY = { what: /^(?:node:http2|semver)$/, importer: /[\\/]fastify[\\/]lib[\\/]/ };

/** esbuild plugin: loads what Fastify seldom uses once it is used. */
export const seldomUsedParts = {
  name: 'seldom-used-parts',
  setup(build) {
    const { what, importer } = SELDOM_USED_BY_FASTIFY;
    build.onResolve({ filter: what }, (asked) =>
      importer.test(asked.importer)
        ? { path: asked.path, namespace: 'seldom-used', pluginData: asked.resolveDir }
        : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: 'seldom-used' }, ({ path, pluginData: resolveDir }) => ({
      contents: `module.exports = new Proxy({}, { get: (_target, name) => require(${JSON.stringify(path)})[name] });`,
      loader: 'js',
      resolveDir,
    }));
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
