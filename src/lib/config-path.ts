import { existsSync } from 'node:fs';
import { dirname, isAbsolute, resolve } from 'node:path';
import { expandHome } from './home-path.js';

/** What comes before a colon in front of the first slash is a scheme or a host. */
const ADDRESS = /^[^/\\]+:/;

/** Whether a path begins where its reader says: it is neither absolute nor an address nor in the home folder. */
function isRelative(path: string): boolean {
  return path !== '' && !isAbsolute(path) && !ADDRESS.test(path) && expandHome(path) === path;
}

/**
 * A path of a configuration file, with the home folder in place of `~`. A relative one begins in the folder of that file, so that
 * the file means the same from everywhere. An address stays.
 */
export function pathInConfig(path: string, configFile: string): string {
  return isRelative(path) ? resolve(dirname(configFile), path) : expandHome(path);
}

/** As {@link pathInConfig}, of a value that may be a text: one that names no file there stays. */
export function pathOrTextInConfig(value: string, configFile: string): string {
  const path = value.includes('\n') ? value : pathInConfig(value.trim(), configFile);
  return path !== value && existsSync(path) ? path : value;
}

/** What to say of a path that leads elsewhere than from the working directory, where there is something; undefined: nothing. */
export function misplaced(path: string, configFile: string): string | undefined {
  const [there, here] = [pathInConfig(path, configFile), resolve(path)];
  if (!isRelative(path) || there === here || existsSync(there) || !existsSync(here)) return undefined;
  return `is ${there}, which does not exist: relative paths begin in the folder of the configuration file, not in the working directory, where ${here} is`;
}
