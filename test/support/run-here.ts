import { type CommandParts, policysync } from '../../src/cli/commands.js';
import { runCommandLine } from '../../src/cli/run-program.js';
import { syncClient } from '../../src/cli/sync-client.js';
import { syncServer } from '../../src/cli/sync-server.js';
import type { CommandResult } from './command.js';
import { gatheredIo } from './command-io.js';

const PROGRAMS = { policysync, server: syncServer, client: syncClient } as const;

/**
 * Runs a command in this process: the code that ships, without the start of a process, for cases about what a command says. With
 * nothing of this process's environment but PATH and HOME, as `runCommand`. Not for a command that looks at the home folder of `env`,
 * at signals, at a terminal, or at its working directory.
 */
export async function runHere(
  program: keyof typeof PROGRAMS,
  args: readonly string[],
  env: Record<string, string> = {},
  input = '',
  parts: CommandParts = {},
): Promise<CommandResult> {
  const { PATH = '', HOME = '' } = process.env;
  const io = gatheredIo({ PATH, HOME, ...env }, input);
  const code = await runCommandLine(PROGRAMS[program](io, parts), args, io);
  return { code, ...io.written };
}
