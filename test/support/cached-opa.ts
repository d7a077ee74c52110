import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cacheFile } from '../../src/client/engine/get-opa/opa-cache.js';

/**
 * A machine whose one OPA is in the cache folder, below `dir`, and is this shell script; nothing can be
 * downloaded. The script gets OPA's arguments.
 */
export async function cachedOpa(
  dir: string,
  script: string,
): Promise<{ readonly env: Record<string, string>; readonly file: string }> {
  const bin = join(dir, 'bin');
  const env = {
    PATH: bin,
    HOME: dir,
    XDG_CACHE_HOME: join(dir, 'cache'),
    HTTPS_PROXY: 'http://127.0.0.1:1',
    TMPDIR: dir,
  };
  const file = cacheFile(env, { os: process.platform, arch: process.arch });
  await mkdir(bin);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
  return { env, file };
}
