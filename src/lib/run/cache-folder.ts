import { isAbsolute, join } from 'node:path';

/** What decides where a user's caches are: environment and `process.platform`. */
export interface CachePlace {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly os: string;
}

/**
 * `policysync` in the user's cache folder: `XDG_CACHE_HOME` (XDG Base Directory Specification), on
 * Windows `LOCALAPPDATA`, else `~/.cache`. Throws where the environment names none of them.
 */
export function cacheFolder({ env, os }: CachePlace): string {
  return join(userCaches(env, os), 'policysync');
}

function userCaches(env: CachePlace['env'], os: string): string {
  // The XDG base directory specification says to ignore a relative path.
  if (env.XDG_CACHE_HOME !== undefined && isAbsolute(env.XDG_CACHE_HOME)) return env.XDG_CACHE_HOME;
  if (os === 'win32' && env.LOCALAPPDATA !== undefined) return env.LOCALAPPDATA;
  const home = env.HOME ?? env.USERPROFILE;
  if (home === undefined || home === '') throw new Error('neither XDG_CACHE_HOME nor HOME is set');
  return join(home, '.cache');
}
