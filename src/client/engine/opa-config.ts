import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SyncError } from '../../lib/errors.js';
import { DOOR_FILE } from './door.js';
import type { InlineEngineConfig } from './opa-args.js';

/** One value of our configuration that is laid over the operator's own configuration file. */
interface ConfigOverride {
  /** Path in OPA's `--set` notation, with special characters escaped. */
  path: string;
  value: string | number | boolean;
}

/**
 * Our configuration as single values. OPA takes one configuration file; where the operator has one (of any format), ours
 * is laid over it value by value. Throws `config_invalid` for what that notation cannot say (lists, null).
 */
export function configOverrides(configText: string): ConfigOverride[] {
  const found: ConfigOverride[] = [];
  const visit = (value: unknown, path: string): void => {
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
      found.push({ path, value });
    } else if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      for (const [key, inner] of Object.entries(value)) {
        const segment = key.replaceAll(/[\\.,=[\]{}]/g, '\\$&');
        visit(inner, path === '' ? segment : `${path}.${segment}`);
      }
    } else {
      throw new SyncError('config_invalid', `the engine's configuration cannot be combined at "${path}"`);
    }
  };
  visit(JSON.parse(configText), '');
  return found;
}

/**
 * Writes our configuration into `dir`, readable by us alone, and returns the arguments that name it. `operatorsFile` is
 * `config_file` of SYNC_INLINE_ENGINE_CONFIG; its own services must then be written as an object, not as a list.
 */
export async function writeConfig(
  dir: string,
  configText: string | undefined,
  operatorsFile: string | undefined,
): Promise<string[]> {
  const write = async (name: string, text: string): Promise<string> => {
    const file = join(dir, name);
    await writeFile(file, text, { mode: 0o600, flag: 'wx' });
    return file;
  };
  if (operatorsFile === undefined) {
    return configText === undefined ? [] : [`--config-file=${await write('config.json', configText)}`];
  }
  const args = [`--config-file=${operatorsFile}`];
  for (const [index, { path, value }] of configOverrides(configText ?? '{}').entries()) {
    // Text goes through a file: it may be a secret, which a command line would show, and it may look like a number.
    args.push(
      typeof value === 'string'
        ? `--set-file=${path}=${await write(`value-${index}`, value)}`
        : `--set=${path}=${value}`,
    );
  }
  return args;
}

/**
 * Writes our authorization policy into `dir`, readable by us alone, and returns the options of OPA that make it count from the
 * first request on; none where there is no such policy. `files` are those that OPA loads anyway.
 */
export async function writeDoor(
  dir: string,
  rego: string | undefined,
  files: readonly string[] = [],
): Promise<Pick<InlineEngineConfig, 'authentication' | 'authorization' | 'files'>> {
  if (rego === undefined) return {};
  const file = join(dir, DOOR_FILE);
  await writeFile(file, rego, { mode: 0o600, flag: 'wx' });
  return { authentication: 'token', authorization: 'basic', files: [...files, file] };
}
