import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * A path with the home folder in place of `~`, alone or before a slash: shells replace it in front of a word only, and services never.
 * `~user` stays as it is.
 */
export function expandHome(path: string, home = homedir()): string {
  return path === '~' || path.startsWith('~/') ? join(home, path.slice(1)) : path;
}
