import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The repository's folder, from wherever this file was compiled to. */
export function repoRoot(): string {
  for (let folder = import.meta.dirname; folder !== dirname(folder); folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder;
  }
  throw new Error('package.json of the repository was not found');
}
