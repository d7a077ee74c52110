import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Fatal } from './run.mjs';

/** Files of `swagger-ui-dist` that the documentation page is made of (src/http/docs-page.ts), and their licences. */
const FILES = [
  'swagger-ui.css',
  'swagger-ui-bundle.js',
  'favicon-32x32.png',
  'LICENSE',
  'NOTICE',
  'swagger-ui-bundle.js.LICENSE.txt',
];

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
}
