import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { brotliDecompress } from 'node:zlib';

/** One file of the documentation page. */
export interface DocsPart {
  readonly type: string;
  readonly content: string | Buffer;
}

/**
 * Files of the package `swagger-ui-dist`, as published, by their names here: the build puts them
 * beside our own, texts compressed (scripts/lib/docs-ui.mjs).
 */
const FILES: ReadonlyMap<string, { readonly type: string; readonly file: string }> = new Map([
  ['swagger-ui.css', { type: 'text/css; charset=utf-8', file: 'swagger-ui.css.br' }],
  ['swagger-ui-bundle.js', { type: 'text/javascript; charset=utf-8', file: 'swagger-ui-bundle.js.br' }],
  ['favicon-32x32.png', { type: 'image/png', file: 'favicon-32x32.png' }],
]);
const decompress = promisify(brotliDecompress);
const FOLDER = new URL('../docs-ui/', import.meta.url);

/** Shows the document beside the page, and calls no external validator. */
const START = `SwaggerUIBundle({ url: 'openapi.json', dom_id: '#swagger-ui', deepLinking: true, validatorUrl: null });
`;

/**
 * The page may load its parts and call this API. Scripts and styles come from files alone; images
 * may be in the style sheet.
 */
export const DOCS_CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * The page. Its parts are named relative to `/docs`, so that it works below a path of a proxy, too.
 */
export function docsPage(title: string): DocsPart {
  return {
    type: 'text/html; charset=utf-8',
    content: `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)}</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
</head>
<body>
<div id="swagger-ui"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`,
  };
}

/** A part of the page by its name; undefined if there is none. */
export async function docsPart(name: string): Promise<DocsPart | undefined> {
  if (name === 'start.js') return { type: 'text/javascript; charset=utf-8', content: START };
  const found = FILES.get(name);
  if (found === undefined) return undefined;
  const { type, file } = found;
  const bytes = await readFile(new URL(file, FOLDER));
  return { type, content: file.endsWith('.br') ? await decompress(bytes) : bytes };
}
