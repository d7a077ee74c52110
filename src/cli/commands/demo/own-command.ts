import { realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { packageFolder, packageManifest } from '../../../lib/run/version.js';

/** The file of the program `policysync` of this very package. */
export function ownProgram(): string {
  return join(packageFolder(), packageManifest().bin.policysync);
}

/**
 * How a user calls it: by its name where the user's shell finds it by that, else with Node and its
 * file.
 */
export function ownCommand(env: NodeJS.ProcessEnv, file = ownProgram()): readonly string[] {
  // `npx` and `npm run` put folders on PATH that another terminal does not have.
  const folders = (env.PATH ?? '')
    .split(delimiter)
    .filter((folder) => folder !== '' && !folder.includes('node_modules'));
  const isOurs = (folder: string): boolean => pathOf(join(folder, 'policysync')) === pathOf(file);
  return folders.some(isOurs) ? ['policysync'] : ['node', file];
}

function pathOf(file: string): string | undefined {
  try {
    return realpathSync(file);
  } catch {
    return undefined; // there is none
  }
}
