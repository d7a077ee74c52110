import { policysync } from './commands.js';
import { type CommandIo, printLine } from './kit/command-io.js';
import { EXIT, runCommandLine } from './kit/run-program.js';

/** OPAL's commands that the specification has, too. */
const SAME: Readonly<Record<string, readonly string[]>> = {
  'publish-data-update': ['publish'],
  'generate-secret': ['keys', '--secret'],
};
/** Other commands of OPAL's programs, and what to call instead. */
const RENAMED: Readonly<Record<string, string>> = {
  'obtain-token': 'token',
  'print-config': 'config print',
  version: '--version',
};

/**
 * Runs `sync-server` or `sync-client`: other names of `policysync server` and `policysync client`,
 * whose users may be used to OPAL's `run`, and to a command. Returns the exit code.
 */
export async function runByOpalName(
  program: 'server' | 'client',
  argv: readonly string[],
  io: CommandIo,
): Promise<number> {
  const [name = '', ...rest] = argv;
  if (Object.hasOwn(RENAMED, name)) {
    printLine(io.stderr, `error: unknown command '${name}'; use: policysync ${RENAMED[name]}`);
    return EXIT.usage;
  }
  return runCommandLine(policysync(io), commandLine(program, name, rest), io);
}

function commandLine(program: string, name: string, rest: readonly string[]): readonly string[] {
  if (name === '' || name === 'run') return [program, ...rest];
  if (name === '--version' || name === '-V') return ['--version'];
  return [...(Object.hasOwn(SAME, name) ? (SAME[name] ?? []) : [program, name]), ...rest];
}
