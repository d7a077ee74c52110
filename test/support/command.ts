import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { programFile } from './program-file.js';

/** How a command ended. */
export interface CommandResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** A running command of this package. `await using` ends it. */
export interface StartedCommand extends AsyncDisposable {
  readonly process: ChildProcessWithoutNullStreams;
  /** What it has written so far. */
  stdout(): string;
  stderr(): string;
  /** Resolves with the first match in what it writes to standard error; rejects when it ends before. */
  says(pattern: RegExp): Promise<RegExpExecArray>;
  /** Its end. */
  result: Promise<CommandResult>;
}

/** Where a command is started. */
export interface StartPlace {
  readonly cwd?: string | undefined;
  /** The file of a control group that takes its process id. */
  readonly group?: string | undefined;
}

const ENTER = 'echo $$ > "$1" && shift && exec "$@"';

/** Starts the compiled program, with nothing of this process's environment but PATH and HOME. */
export function startCommand(
  program: 'server' | 'client' | 'policysync',
  args: readonly string[],
  env: Record<string, string> = {},
  { cwd, group }: StartPlace = {},
): StartedCommand {
  return startFile(programFile(program), args, env, { cwd, group });
}

/** Starts a JavaScript file in the same way. */
export function startFile(
  file: string,
  args: readonly string[],
  env: Record<string, string> = {},
  { cwd, group }: StartPlace = {},
): StartedCommand {
  const { PATH = '', HOME = '' } = process.env;
  const command = [process.execPath, file, ...args] as const;
  // A process of a group is in it before its program starts, which looks at its limits then.
  const [program, ...given] = group === undefined ? command : (['sh', '-c', ENTER, 'sh', group, ...command] as const);
  const child = spawn(program, given, { env: { PATH, HOME, ...env }, cwd });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  const result = once(child, 'close').then(([code]) => ({ code: code as number | null, stdout, stderr }));
  return {
    process: child,
    stdout: () => stdout,
    stderr: () => stderr,
    result,
    says: async (pattern) => {
      for (;;) {
        const match = pattern.exec(stderr);
        if (match !== null) return match;
        const ended = await Promise.race([once(child.stderr, 'data').then(() => undefined), result]);
        if (ended !== undefined && !pattern.test(stderr)) throw new Error(`ended with ${ended.code}: ${stderr}`);
      }
    },
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      await result;
    },
  };
}

/** Runs a command to its end. */
export async function runCommand(
  program: 'server' | 'client' | 'policysync',
  args: readonly string[],
  env: Record<string, string> = {},
  input = '',
): Promise<CommandResult> {
  const command = startCommand(program, args, env);
  command.process.stdin.end(input);
  return command.result;
}
