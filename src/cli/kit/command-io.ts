import { Console } from 'node:console';
import { forTerminal } from '../../lib/json/control-characters.js';

/** Standard output or standard error of a command. */
export interface CommandOutput extends NodeJS.WritableStream {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly rows?: number | undefined;
}

/**
 * What a command is given of the world: `process` is one. A stream is made when it is first looked
 * at.
 */
export interface CommandIo {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: AsyncIterable<Uint8Array | string> & { readonly isTTY?: boolean | undefined };
  readonly stdout: CommandOutput;
  readonly stderr: CommandOutput;
}

/** The same streams with another environment. */
export function withEnv(io: CommandIo, env: NodeJS.ProcessEnv): CommandIo {
  return {
    env,
    get stdin() {
      return io.stdin;
    },
    get stdout() {
      return io.stdout;
    },
    get stderr() {
      return io.stderr;
    },
  };
}

/**
 * Prints a line; as with `console.log`, it is no failure that nobody reads it. A terminal gets no
 * control characters: what peers, files and servers call themselves may have them.
 */
export function printLine(output: CommandOutput, line: string): void {
  new Console(output).log(output.isTTY === true ? forTerminal(line) : line);
}
