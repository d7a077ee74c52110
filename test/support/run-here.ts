import { type CommandParts, policysync } from '../../src/cli/commands.js';
import { runCommandLine } from '../../src/cli/kit/run-program.js';
import { runByOpalName } from '../../src/cli/opal-names.js';
import type { CommandResult } from './command.js';
import { gatheredIo } from './command-io.js';

/**
 * Runs a command in this process: the code that ships, without the start of a process, for cases about
 * what a command says. With nothing of this process's environment but PATH and HOME, as `runCommand`. Not
 * for a command that looks at the home folder of `env`, at signals, at a terminal, or at its working
 * directory. `server` and `client`: `sync-server` and `sync-client`.
 */
export async function runHere(
  program: 'policysync' | 'server' | 'client',
  args: readonly string[],
  env: Record<string, string> = {},
  input = '',
  parts: CommandParts = {},
): Promise<CommandResult> {
  const { PATH = '', HOME = '' } = process.env;
  const io = gatheredIo({ PATH, HOME, ...env }, input);
  const code =
    program === 'policysync'
      ? await runCommandLine(policysync(io, parts), args, io)
      : await runByOpalName(program, args, io);
  return { code, ...io.written };
}
