import { execFile } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';

const exec = promisify(execFile);
/** What a machine may need to reach the registry: a Node of another origin does not know the certificates of the system. */
const NETWORK = /^(?:https?_proxy|no_proxy|NODE_EXTRA_CA_CERTS|SSL_CERT_(?:FILE|DIR)|npm_config_(?:registry|cafile))$/i;

/**
 * The environment of npm as a user runs it: with the Node that runs this test, and with nothing of this process's environment but
 * what npm itself needs. Packages come from the cache of this machine where it has them; what else npm keeps is below `home`.
 */
export async function npmEnvironment(home: string): Promise<NodeJS.ProcessEnv> {
  const { PATH = '', HOME = '' } = process.env;
  const { stdout } = await exec('npm', ['config', 'get', 'cache'], { env: { PATH, HOME } });
  const cache = join(home, 'cache');
  await mkdir(cache, { recursive: true });
  const kept = join(stdout.trim(), '_cacache');
  await mkdir(kept, { recursive: true });
  await symlink(kept, join(cache, '_cacache'));
  return {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => NETWORK.test(name))),
    ...{ PATH: `${dirname(process.execPath)}${delimiter}${PATH}`, HOME, npm_config_cache: cache },
    ...{ npm_config_prefer_offline: 'true', npm_config_audit: 'false', npm_config_fund: 'false' },
    npm_config_update_notifier: 'false',
  };
}
