import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { SyncError } from '../errors.js';

/**
 * The home folder of the user; undefined: HOME is not set, and the system does not know the user,
 * as in many containers.
 */
export function homeFolder(look: () => string = homedir): string | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

/**
 * The folder for state: XDG_STATE_HOME, otherwise `~/.local/state` (XDG Base Directory
 * Specification, which has relative paths ignored). Throws `config_invalid` that names `setting`,
 * which needs neither.
 */
export function stateHome(
  env: Readonly<Record<string, string | undefined>>,
  setting: string,
  look: () => string | undefined = homeFolder,
): string {
  const base = env.XDG_STATE_HOME ?? '';
  if (isAbsolute(base)) return base;
  const home = env.HOME || look();
  if (home !== undefined) return join(home, '.local', 'state');
  throw new SyncError('config_invalid', `HOME is not set, and this user has no home folder: set ${setting}`);
}

/**
 * A path with the home folder in place of `~`, alone or before a slash: shells replace it in front
 * of a word only, and services never. `~user` stays as it is, and all where there is no home
 * folder.
 */
export function expandHome(path: string, home = homeFolder()): string {
  return home !== undefined && (path === '~' || path.startsWith('~/')) ? join(home, path.slice(1)) : path;
}
