import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { repoRoot } from '../../support/repo.js';

/** The folder of the page, built anew where its sources have changed since. Throws where vite cannot be run. */
export async function builtPage(): Promise<string> {
  const root = repoRoot();
  const folder = join(root, 'build', 'src', 'ui');
  const { keepUiCurrent } = (await import(pathToFileURL(join(root, 'scripts', 'lib', 'ui.mjs')).href)) as {
    keepUiCurrent(root: string, folder: string): Promise<void>;
  };
  await keepUiCurrent(root, folder);
  if (!existsSync(join(folder, 'index.html'))) throw new Error('there is no page: vite cannot be run here');
  return folder;
}
