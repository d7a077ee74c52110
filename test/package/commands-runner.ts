import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import type { CommandResult } from '../support/command.js';

/** A command of an installed program: its file, its arguments and its whole environment. */
export interface CommandLine {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/**
 * A process that runs command lines of the installed programs one after the other: it reads them from standard input, and prints how
 * each ended. Each program file is run as Node runs it, and its modules are loaded once for all of them.
 */
const lines = JSON.parse(await text(process.stdin)) as CommandLine[];
const [exit, toStdout, toStderr] = [process.exit, process.stdout.write, process.stderr.write];
const results: CommandResult[] = [];
for (const [index, { file, args, env }] of lines.entries()) {
  const result: CommandResult = { code: null, stdout: '', stderr: '' };
  process.argv = [process.execPath, file, ...args];
  process.env = { ...env };
  const gather = (stream: 'stdout' | 'stderr'): typeof process.stdout.write =>
    ((chunk: string, ...more: unknown[]) => {
      result[stream] += chunk;
      const done = more.at(-1);
      if (typeof done === 'function') done();
      return true;
    }) as typeof process.stdout.write;
  process.stdout.write = gather('stdout');
  process.stderr.write = gather('stderr');
  // The last that a program does.
  process.exit = ((code: number) => {
    result.code = code;
  }) as typeof process.exit;
  try {
    await import(`${pathToFileURL(file).href}?${index}`);
  } finally {
    Object.assign(process, { exit });
    process.stdout.write = toStdout;
    process.stderr.write = toStderr;
  }
  results.push(result);
}
process.stdout.write(JSON.stringify(results), () => exit());
