import { Readable, Writable } from 'node:stream';
import type { CommandIo, CommandOutput } from '../../src/cli/kit/command-io.js';

/** The streams of a command that runs in this process, and what it has written to them. */
export interface GatheredIo extends CommandIo {
  readonly written: { readonly stdout: string; readonly stderr: string };
}

/** Streams that are no terminal, with `input` to read. */
export function gatheredIo(env: NodeJS.ProcessEnv = {}, input = ''): GatheredIo {
  const written = { stdout: '', stderr: '' };
  const output = (name: keyof typeof written): CommandOutput =>
    new Writable({
      decodeStrings: false,
      write: (chunk, _, done) => {
        written[name] += chunk;
        done();
      },
    });
  return { env, stdin: Readable.from([input]), stdout: output('stdout'), stderr: output('stderr'), written };
}
