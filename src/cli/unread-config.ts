import { existsSync } from 'node:fs';
import type { Command } from 'commander';
import { CONFIG_VARIABLE } from '../settings.js';

/** The name that `init` gives the configuration file. */
const FILE = 'policysync.yaml';

/** What to tell of a configuration file in the working directory that a command with `--config` did not read; undefined: nothing. */
export function unreadConfig(command: Command, env: NodeJS.ProcessEnv): string | undefined {
  const takesFile = command.options.some(({ long }) => long === '--config');
  const isNamed = command.optsWithGlobals<{ config?: string }>().config !== undefined;
  if (!takesFile || isNamed || (env[CONFIG_VARIABLE] ?? '') !== '' || !existsSync(FILE)) return undefined;
  return `${FILE} in this folder was not read: --config ${FILE} names it`;
}
