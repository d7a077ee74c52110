import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { Fatal } from './run.mjs';

/** Files of `swagger-ui-dist` that the documentation page is made of (src/http/docs-page.ts), and their licences. */
const FILES = ['favicon-32x32.png', 'LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt'];

/** Those of them that are kept compressed: the package is smaller to download and to keep. */
const COMPRESSED = ['swagger-ui.css', 'swagger-ui-bundle.js'];
/** The best takes seconds, for a tenth less. */
const QUALITY = { [constants.BROTLI_PARAM_QUALITY]: 9 };

/**
 * Puts the files of the documentation page into `docs-ui/` of a folder with our code. So the package has these few files and not
 * the whole of theirs as a dependency.
 */
export function copyDocsUi(root, folder) {
  const from = join(root, 'node_modules', 'swagger-ui-dist');
  if (!existsSync(from)) throw new Fatal('The dependencies are not installed; run "npm ci" first.');
  const to = join(folder, 'docs-ui');
  mkdirSync(to, { recursive: true });
  for (const file of FILES) copyFileSync(join(from, file), join(to, file));
  for (const file of COMPRESSED) {
    writeFileSync(join(to, `${file}.br`), brotliCompressSync(readFileSync(join(from, file)), { params: QUALITY }));
  }
}
